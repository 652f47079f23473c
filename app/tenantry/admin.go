// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
)

// adminHandler serves what watches the process; it never listens in public.
func (s *service) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 2 * databaseTime,
		EnableOpenMetrics: true, // its exemplars lead from a graph to a trace
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	return mux
}

// aspect is one thing that /readyz?verbose tells.
type aspect struct {
	name string
	// problem is "" when all is well.
	problem string
	// vendor: it never makes the service unready. Stored reads need no
	// vendor, and no replica would be left if one did.
	vendor bool
}

func (a aspect) fails() bool { return a.problem != "" && !a.vendor }

func (a aspect) String() string {
	switch {
	case a.problem == "":
		return fmt.Sprintf("[+] %s: ok", a.name)
	case a.vendor:
		return fmt.Sprintf("[!] %s: %s (the service stays ready)", a.name, a.problem)
	default:
		return fmt.Sprintf("[-] %s: %s", a.name, a.problem)
	}
}

// readyz says whether requests should come here. ?verbose tells of what else
// there is to know, in lines.
func (s *service) readyz(w http.ResponseWriter, r *http.Request) {
	status, line, shown := http.StatusOK, "ok", []string(nil)
	for _, a := range s.aspects(r.Context()) {
		shown = append(shown, a.String())
		if a.fails() && status == http.StatusOK {
			status, line = http.StatusServiceUnavailable, a.name+": "+a.problem
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.URL.Query().Has("verbose") {
		line = strings.Join(append(shown, "readyz: "+map[bool]string{true: "ready", false: "not ready"}[status == http.StatusOK]), "\n")
	}
	_, _ = fmt.Fprintln(w, line)
}

func (s *service) aspects(ctx context.Context) []aspect {
	stop, database := aspect{name: "stop"}, aspect{name: "database"}
	if s.draining.Load() {
		stop.problem = "asked for: requests under way are finished"
	}
	if err := s.database.feel(ctx); err != nil {
		database.problem = "away"
		if errors.Is(err, context.DeadlineExceeded) {
			database.problem = "does not answer in time"
		}
	}
	all := []aspect{stop, database}
	for _, p := range s.host.Status() {
		a := aspect{name: "plugin " + p.Name, vendor: true}
		if p.State == pluginhost.Waiting || p.State == pluginhost.CrashLoop {
			a.problem = strings.ReplaceAll(string(p.State), "_", " ")
		}
		all = append(all, a)
	}
	return append(all, s.circuitAspect())
}

func (s *service) circuitAspect() aspect {
	a, counts := aspect{name: "circuits of " + mailPlatform, vendor: true}, s.openness()
	login, tenants := counts[circuitPlace{mailPlatform, "login", breaker.Open}], counts[circuitPlace{mailPlatform, "tenant", breaker.Open}]
	if login+tenants > 0 {
		a.problem = fmt.Sprintf("open for the login host: %t, for %.0f tenants", login > 0, tenants)
	}
	return a
}
