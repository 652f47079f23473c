// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/panics"
)

// meterName is the instrumentation scope of this package's metrics. Exporters publish the scope, so
// it must not change. It is still the path of the package that first defined the metrics.
const meterName = "github.com/tenantry/tenantry/app/tenantry"

// DatabaseTimeout bounds one ping of the database. It also bounds all queries of storedGauges in
// one scrape together.
const DatabaseTimeout = 2 * time.Second

// pingCacheTTL is how long the result of a database ping is reused. Concurrent checks therefore
// wait for one ping. If each check pinged a database that hangs, the last check would exceed the
// deadline of its caller. The caller would then consider the service down.
const pingCacheTTL = time.Second

// databaseHealth checks whether the database answers. Checks within pingCacheTTL share the result
// of one ping.
type databaseHealth struct {
	ping func(context.Context) error

	mu       sync.Mutex
	pingedAt time.Time
	err      error
}

// Check returns nil if the database answers, and the error of the ping otherwise.
func (h *databaseHealth) Check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pingedAt.IsZero() && time.Since(h.pingedAt) < pingCacheTTL {
		return h.err
	}
	// Other callers share the result, so the ping ignores the cancellation of this caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DatabaseTimeout)
	defer cancel()
	h.err = h.ping(ctx)
	h.pingedAt = time.Now()
	return h.err
}

// processMetrics has the gauges and counters that each scrape reads from this process, its database
// connection and its credential files. storedGauges has the gauges of stored data. Other metrics
// are recorded where the events happen.
type processMetrics struct {
	service *Service
	config  settings.Config

	buildInfo, databaseUp, circuits, pluginState, credentialExpiry, credentialUnusable metric.Float64ObservableGauge
	limiterFallback, connections                                                       metric.Float64ObservableGauge
	pluginRestarts, pluginHangs, limiterFallbacks, closedConnections                   metric.Int64ObservableCounter
}

// registerProcessMetrics registers processMetrics, and the collectors of the Go runtime and the
// process. It fails when a collector is registered already or an instrument cannot be created.
func (s *Service) registerProcessMetrics(c settings.Config) error {
	if err := errors.Join(s.Metrics.Register(collectors.NewGoCollector()),
		s.Metrics.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return err
	}
	meter, m, errs := otel.Meter(meterName), &processMetrics{service: s, config: c}, []error(nil)
	gauge := func(name, description string) metric.Float64ObservableGauge {
		instrument, err := meter.Float64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return instrument
	}
	counter := func(name, description string) metric.Int64ObservableCounter {
		instrument, err := meter.Int64ObservableCounter(name, metric.WithDescription(description))
		errs = append(errs, err)
		return instrument
	}
	m.buildInfo = gauge("tenantry.build.info", "Always 1. The labels are the version, the commit and the Go version.")
	m.databaseUp = gauge("tenantry.database.up", "1 while the database answers.")
	m.circuits = gauge("tenantry.circuits", "Circuits by provider, fault domain and state.")
	m.pluginState = gauge("tenantry.plugin.state", "1 for the current state of a plugin, 0 for all other states.")
	m.credentialExpiry = gauge("tenantry.credential.expiry.timestamp.seconds", "Expiry of the operator's credential at a provider, or of the service's own TLS certificate, in Unix seconds.")
	m.credentialUnusable = gauge("tenantry.credential.file.unusable", "1 while the file of the operator's credential at a provider, or of the service's own TLS certificate, cannot be used. If the file was valid before, the service uses its last valid content.")
	m.pluginRestarts = counter("tenantry.plugin.restarts", "Processes of plugins that were started after an earlier process of the plugin.")
	m.pluginHangs = counter("tenantry.plugin.hangs", "Plugin processes killed because they did not answer.")
	m.limiterFallback = gauge("tenantry.ratelimit.fallback", "1 while this process counts rate limits by itself, because its Redis does not answer.")
	m.limiterFallbacks = counter("tenantry.ratelimit.fallbacks", "How often the Redis of the rate limits became unavailable.")
	m.connections = gauge("tenantry.connections", "Open connections of the API listener.")
	m.closedConnections = counter("tenantry.connections.closed", "Connections of the API listener that were closed because of max_connections. The label limit says which limit was reached: the limit of one address, or the limit of all addresses.")
	_, err := meter.RegisterCallback(catchPanics(m.observe), m.buildInfo, m.databaseUp, m.circuits, m.pluginState, m.credentialExpiry, m.credentialUnusable, m.pluginRestarts, m.pluginHangs, m.limiterFallback, m.limiterFallbacks, m.connections, m.closedConnections)
	return errors.Join(append(errs, err)...)
}

// catchPanics returns a callback that turns a panic of observe into an error. Otherwise the panic
// would end the process, because the metric libraries call callbacks in goroutines that do not
// recover panics.
func catchPanics(observe metric.Callback) metric.Callback {
	return func(ctx context.Context, o metric.Observer) error {
		return panics.Catch(func() error { return observe(ctx, o) })
	}
}

// labels returns the attributes of an observation. pairs alternates names and values.
func labels(pairs ...string) metric.MeasurementOption {
	attributes := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		attributes = append(attributes, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributes(attributes...)
}

func (m *processMetrics) observe(ctx context.Context, o metric.Observer) error {
	o.ObserveFloat64(m.buildInfo, 1, labels("version", cli.Version, "commit", cli.Commit, "go_version", runtime.Version()))
	o.ObserveFloat64(m.databaseUp, boolValue(m.service.Database.Check(ctx) == nil))
	limiterState := m.service.limiter.State()
	o.ObserveFloat64(m.limiterFallback, boolValue(limiterState.Fallback))
	o.ObserveInt64(m.limiterFallbacks, limiterState.Fallbacks)
	open, closed := m.service.APIConnections.Counts()
	o.ObserveFloat64(m.connections, float64(open))
	o.ObserveInt64(m.closedConnections, closed.ByClientLimit, labels("limit", "address"))
	o.ObserveInt64(m.closedConnections, closed.ByTotalLimit, labels("limit", "all"))
	for key, count := range m.service.CircuitStates() {
		o.ObserveFloat64(m.circuits, count, labels("provider", key.Provider, "domain", key.Domain, "state", string(key.State)))
	}
	for _, plugin := range m.service.Host.Status() {
		for _, state := range pluginhost.States {
			o.ObserveFloat64(m.pluginState, boolValue(plugin.State == state), labels("plugin", plugin.Name, "state", string(state)))
		}
		o.ObserveInt64(m.pluginRestarts, int64(max(plugin.Starts-1, 0)), labels("plugin", plugin.Name))
		o.ObserveInt64(m.pluginHangs, int64(plugin.Hangs), labels("plugin", plugin.Name))
	}
	m.observeCredentials(ctx, o)
	return nil
}

// observeCredentials observes when the credentials in use expire, and which files cannot be used.
// It takes the expiry from the content in use, because a broken file does not replace this content.
func (m *processMetrics) observeCredentials(ctx context.Context, o metric.Observer) {
	for setting, expiry := range expiryDates(m.config.Providers[m.config.MailPlatform]) {
		o.ObserveFloat64(m.credentialExpiry, float64(expiry.Unix()), labels("provider", m.config.MailPlatform, "credential", setting))
	}
	for setting, state := range m.service.credentialFiles.states(ctx) {
		fileLabels := labels("provider", setting.provider, "credential", setting.name)
		o.ObserveFloat64(m.credentialUnusable, boolValue(!state.usable), fileLabels)
		if !strings.HasSuffix(setting.name, "certificate_file") {
			continue
		}
		content := []byte(state.inUse.Reveal())
		if expiry, _ := CertificateExpiry(content, content, time.Now()); !expiry.IsZero() {
			o.ObserveFloat64(m.credentialExpiry, float64(expiry.Unix()), fileLabels)
		}
	}
	if m.service.serverCertificate != nil {
		certificate, err := m.service.serverCertificate()
		fileLabels := labels("provider", "tenantry", "credential", "tls_certificate_file")
		o.ObserveFloat64(m.credentialUnusable, boolValue(err != nil), fileLabels)
		o.ObserveFloat64(m.credentialExpiry, float64(certificate.Leaf.NotAfter.Unix()), fileLabels)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// CircuitKey groups circuits by provider, kind of fault domain and state. It does not contain the
// tenant or the credential of a circuit.
type CircuitKey struct {
	Provider, Domain string
	State            breaker.State
}

// CircuitStates returns the number of circuits for each CircuitKey. A key without a circuit has the
// number 0.
func (s *Service) CircuitStates() map[CircuitKey]float64 {
	counts := map[CircuitKey]float64{}
	addCircuits := func(provider string, circuits []breaker.Circuit, domains ...string) {
		for _, domain := range domains {
			for _, state := range []breaker.State{breaker.Closed, breaker.HalfOpen, breaker.Open} {
				counts[CircuitKey{provider, domain, state}] = 0
			}
		}
		for _, c := range circuits {
			domain, _, _ := strings.Cut(c.Domain, "/")
			counts[CircuitKey{provider, domain, c.State}]++
		}
	}
	addCircuits(s.MailPlatform, s.mailCircuits.Circuits(), "login", "tenant")
	for provider, chain := range s.dnsProviders.chains {
		addCircuits(provider, chain.circuits.Circuits(), "credential")
	}
	for provider, chain := range s.sendingPlatforms.chains {
		addCircuits(provider, chain.circuits.Circuits(), s.sendingPlatforms.faultDomain(provider))
	}
	return counts
}
