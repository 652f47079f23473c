// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/wiring"
)

// adminHandler returns the handler of the admin endpoints: /metrics, /livez and /readyz. The
// endpoints have no authentication, so admin_listen must not be a public address.
func adminHandler(s *wiring.Service) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 2 * wiring.DatabaseTimeout,
		EnableOpenMetrics: true, // the exemplars of this format link a data point to a trace
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { serveReadyz(s, w, r) })
	return mux
}

// readinessCheck is the result of one check of /readyz.
type readinessCheck struct {
	name string
	// problem is empty when the check passes.
	problem string
	// isProvider marks a check of a plugin or of a provider. Such a check never makes the service
	// unready. Otherwise an outage of the provider would make all replicas unready, although they
	// can serve stored data.
	isProvider bool
}

// makesUnready reports whether the check makes the service unready.
func (c readinessCheck) makesUnready() bool { return c.problem != "" && !c.isProvider }

// String returns the line of the check in /readyz?verbose.
func (c readinessCheck) String() string {
	switch {
	case c.problem == "":
		return fmt.Sprintf("[+] %s: ok", c.name)
	case c.isProvider:
		return fmt.Sprintf("[!] %s: %s (the service stays ready)", c.name, c.problem)
	default:
		return fmt.Sprintf("[-] %s: %s", c.name, c.problem)
	}
}

// serveReadyz answers 200 when this process should receive requests. Otherwise it answers 503 with
// the first problem that makes the service unready. With ?verbose the answer has one line for each
// check, and then the result.
func serveReadyz(s *wiring.Service, w http.ResponseWriter, r *http.Request) {
	status, text, lines := http.StatusOK, "ok", []string(nil)
	for _, c := range readinessChecks(r.Context(), s) {
		lines = append(lines, c.String())
		if c.makesUnready() && status == http.StatusOK {
			status, text = http.StatusServiceUnavailable, c.name+": "+c.problem
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.URL.Query().Has("verbose") {
		text = strings.Join(append(lines, "readyz: "+map[bool]string{true: "ready", false: "not ready"}[status == http.StatusOK]), "\n")
	}
	_, _ = fmt.Fprintln(w, text)
}

// readinessChecks checks that the service is not stopping, and that the database answers. It also
// checks each plugin, and the circuit breakers of the mail platform.
func readinessChecks(ctx context.Context, s *wiring.Service) []readinessCheck {
	stop, database := readinessCheck{name: "stop"}, readinessCheck{name: "database"}
	if s.Draining.Load() {
		stop.problem = "the service stops and finishes the requests in progress"
	}
	if err := s.Database.Check(ctx); err != nil {
		database.problem = "cannot be reached"
		if errors.Is(err, context.DeadlineExceeded) {
			database.problem = "does not answer in time"
		}
	}
	all := []readinessCheck{stop, database}
	for _, p := range s.Host.Status() {
		plugin := readinessCheck{name: "plugin " + p.Name, isProvider: true}
		if p.State == pluginhost.Waiting || p.State == pluginhost.CrashLoop {
			plugin.problem = strings.ReplaceAll(string(p.State), "_", " ")
		}
		all = append(all, plugin)
	}
	return append(all, circuitCheck(s))
}

// circuitCheck reports the open circuit breakers of the mail platform, for the login host and for
// tenants.
func circuitCheck(s *wiring.Service) readinessCheck {
	check, counts := readinessCheck{name: "circuits of " + s.MailPlatform, isProvider: true}, s.CircuitStates()
	login := counts[wiring.CircuitKey{Provider: s.MailPlatform, Domain: "login", State: breaker.Open}]
	tenants := counts[wiring.CircuitKey{Provider: s.MailPlatform, Domain: "tenant", State: breaker.Open}]
	var open []string
	if login > 0 {
		open = append(open, "login host")
	}
	if tenants > 0 {
		open = append(open, fmt.Sprintf("tenants (%.0f)", tenants))
	}
	if len(open) > 0 {
		check.problem = "open for " + strings.Join(open, ", ")
	}
	return check
}
