// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
)

// gauges show what the service is like at the moment they are fetched. What
// happens over time is measured where it happens.
type gauges struct {
	service *service
	config  settings.Config

	build, database, circuits, state, expiry metric.Float64ObservableGauge
	fallback                                 metric.Float64ObservableGauge
	restarts, hangs, fallbacks               metric.Int64ObservableCounter
}

// observe registers the gauges, and those of the Go runtime and the process.
func (s *service) observe(c settings.Config) error {
	if err := errors.Join(s.metrics.Register(collectors.NewGoCollector()),
		s.metrics.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return err
	}
	meter, g, errs := otel.Meter("github.com/tenantry/tenantry/app/tenantry"), &gauges{service: s, config: c}, []error(nil)
	gauge := func(name, about string) metric.Float64ObservableGauge {
		made, err := meter.Float64ObservableGauge(name, metric.WithDescription(about))
		errs = append(errs, err)
		return made
	}
	counter := func(name, about string) metric.Int64ObservableCounter {
		made, err := meter.Int64ObservableCounter(name, metric.WithDescription(about))
		errs = append(errs, err)
		return made
	}
	g.build = gauge("tenantry.build.info", "1, with the version that runs.")
	g.database = gauge("tenantry.database.up", "1 while the database answers.")
	g.circuits = gauge("tenantry.circuits", "Circuits by provider, fault domain and state.")
	g.state = gauge("tenantry.plugin.state", "1 for the state that a plugin is in.")
	g.expiry = gauge("tenantry.credential.expiry.timestamp.seconds", "When a credential of ours at a provider, or the certificate of our own TLS, ends, in Unix seconds.")
	g.restarts = counter("tenantry.plugin.restarts", "Plugin processes that replaced one that ended.")
	g.hangs = counter("tenantry.plugin.hangs", "Plugin processes killed because they did not answer.")
	g.fallback = gauge("tenantry.ratelimit.fallback", "1 while this process counts rate limits by itself, as the Redis that is set does not answer.")
	g.fallbacks = counter("tenantry.ratelimit.fallbacks", "How often the Redis that rate limits are counted in went away.")
	_, err := meter.RegisterCallback(g.look, g.build, g.database, g.circuits, g.state, g.expiry, g.restarts, g.hangs, g.fallback, g.fallbacks)
	return errors.Join(append(errs, err)...)
}

// labels makes pairs of name and value.
func labels(pairs ...string) metric.MeasurementOption {
	set := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributes(set...)
}

func (g *gauges) look(ctx context.Context, o metric.Observer) error {
	o.ObserveFloat64(g.build, 1, labels("version", version, "commit", commit, "go_version", runtime.Version()))
	o.ObserveFloat64(g.database, one(g.service.database.feel(ctx) == nil))
	counting := g.service.limiter.State()
	o.ObserveFloat64(g.fallback, one(counting.Fallback))
	o.ObserveInt64(g.fallbacks, counting.Fallbacks)
	for at, number := range g.service.openness() {
		o.ObserveFloat64(g.circuits, number, labels("provider", at.provider, "domain", at.domain, "state", string(at.state)))
	}
	for _, p := range g.service.host.Status() {
		for _, state := range pluginhost.States {
			o.ObserveFloat64(g.state, one(p.State == state), labels("plugin", p.Name, "state", string(state)))
		}
		o.ObserveInt64(g.restarts, int64(max(p.Starts-1, 0)), labels("plugin", p.Name))
		o.ObserveInt64(g.hangs, int64(p.Hangs), labels("plugin", p.Name))
	}
	for credential, end := range expiries(g.config.Providers[mailPlatform]) {
		o.ObserveFloat64(g.expiry, float64(end.Unix()), labels("provider", mailPlatform, "credential", credential))
	}
	if end, ok := ownExpiry(g.config); ok {
		o.ObserveFloat64(g.expiry, float64(end.Unix()), labels("provider", "tenantry", "credential", "tls_certificate_file"))
	}
	return nil
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// circuitPlace is a kind of fault domain in a state. Which tenant or credential
// it is, is not told.
type circuitPlace struct {
	provider, domain string
	state            breaker.State
}

// openness counts circuits by provider, kind and state, with zeros for what
// there is not.
func (s *service) openness() map[circuitPlace]float64 {
	counts := map[circuitPlace]float64{}
	count := func(provider string, circuits []breaker.Circuit, domains ...string) {
		for _, domain := range domains {
			for _, state := range []breaker.State{breaker.Closed, breaker.HalfOpen, breaker.Open} {
				counts[circuitPlace{provider, domain, state}] = 0
			}
		}
		for _, c := range circuits {
			domain, _, _ := strings.Cut(c.Domain, "/")
			counts[circuitPlace{provider, domain, c.State}]++
		}
	}
	count(mailPlatform, s.circuits.Circuits(), "login", "tenant")
	for provider, route := range s.providers.routes {
		count(provider, route.circuits.Circuits(), "credential")
	}
	for provider, route := range s.sending.routes {
		count(provider, route.circuits.Circuits(), s.sending.domain(provider))
	}
	return counts
}
