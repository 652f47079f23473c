// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/console"
	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// mailPlatform is the provider behind ports.MailPlatform.
const mailPlatform = "microsoft365"

// retryConfig is what Retry-After says while a setting is missing.
const retryConfig = time.Minute

// answerTime is how long a start or a command waits for a database server.
const answerTime = 15 * time.Second

// outside is what a command may put in place of the real world.
type outside struct {
	now     func() time.Time
	secrets map[string]map[string]secret.Text
	// patience is that of jobs, jobSweep how often due ones are looked for.
	patience provisioning.Timetable
	jobSweep time.Duration
	// checkTick is how often it is looked which domains are to be read again.
	checkTick time.Duration
	// onlyLimited has nobody counted by himself who has no limit.
	onlyLimited bool
}

// service is the assembled system.
type service struct {
	store        *bunstore.Store
	database     *pulse
	queue        jobQueue
	idle         bool // does nothing by itself
	limiter      *limiter.Limiter
	limits       httpapi.Limits
	host         *pluginhost.Host
	circuits     *breaker.Platform
	platform     ports.MailPlatform
	providers    *providers
	sending      *sendingProviders
	keys         *keys.Service
	tenants      *tenants.Service
	domains      *domains.Service
	connections  *dnsconnections.Service
	mailboxes    *mailboxes.Service
	integrations *integrations.Service
	enforcement  *enforcement.Service
	enforcer     *enforcement.Runner
	sendLimits   *limits.Service
	sessionSweep time.Duration
	runs         *dnsruns.Service
	jobs         *dnsruns.Worker
	jobSweep     time.Duration
	watch        *domains.Watch
	checkTick    time.Duration
	once         httpapi.Idempotency
	metrics      *prometheus.Registry
	log          *slog.Logger
	flush        func(context.Context) error

	tls                   *tls.Config    // of the API's listener, nil for plain HTTP
	proxies               []netip.Prefix // that say whom they speak for
	drainTime, drainDelay time.Duration
	draining              atomic.Bool // a stop was asked for
}

// assemble calls constructors in order. A missing dependency is an error here,
// not a nil later. publicURL is where browsers reach the service.
func assemble(ctx context.Context, c settings.Config, log *slog.Logger, publicURL string, o outside) (*service, error) {
	collectRarely()
	if o.now == nil {
		o.now = time.Now
	}
	s := &service{log: log, metrics: prometheus.NewRegistry(), idle: !c.Worker, drainTime: c.DrainTime, drainDelay: c.DrainDelay}
	var err error
	if s.proxies, err = c.Proxies(); err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	s.flush, err = telemetry.Start(ctx, telemetry.Options{Service: "tenantry", Version: version, Log: log, Registry: s.metrics})
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if s.store, err = openStore(ctx, c, log); err != nil {
		return nil, err
	}
	s.database = &pulse{ping: s.store.Ping}
	if s.queue, err = openQueue(ctx, c, log); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	if s.limiter, err = limiter.Open(ctx, limiter.Options{URL: c.RedisURL, Log: log}); err != nil {
		return nil, errors.Join(err, s.queue.Close(ctx), s.store.Close())
	}
	s.limits = httpapi.Limits{Counters: s.limiter, Off: c.Limits == "off", InFlight: c.MaxInFlight}
	if s.host, err = openHost(c, log); err != nil {
		return nil, errors.Join(err, s.limiter.Close(), s.queue.Close(ctx), s.store.Close())
	}
	// Last, as a start that is refused should not leave a new keyset behind.
	sealer, err := openKeyset(ctx, c, s.store, true)
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	sealer.Log = log
	if s.platform, err = s.mail(ctx, c, o); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	catalog := providerOptions{host: s.host, counters: s.limiter, prints: sealer, log: log, secrets: o.secrets}
	if s.providers, err = newProviders(c, catalog); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	if s.sending, err = newSendingProviders(c, catalog); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	s.useCases(c, publicURL, sealer, o)
	if err := s.sendingIntegrations(sealer, o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.close(ctx))
	}
	if err := s.enforceLimits(o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.close(ctx))
	}
	s.once = httpapi.Idempotency{Keys: s.store, Sealer: sealer, Prints: sealer, Now: o.now}
	if err := s.watchDomains(c, o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.close(ctx))
	}
	if err := errors.Join(s.observe(c), s.countStored(o.now)); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.close(ctx))
	}
	return s, nil
}

// mail builds the mail platform's port from the inside out: the plugin's
// process, its circuits, the measurement of each call.
func (s *service) mail(ctx context.Context, c settings.Config, o outside) (ports.MailPlatform, error) {
	conn := connections{settings: c.Providers, secrets: o.secrets, files: &credentialFiles{log: s.log}, describe: s.host.Describe}
	conn.files.expect(ctx, mailPlatform, c.Providers[mailPlatform])
	plugin := s.host.Mail(mailPlatform, func(ctx context.Context) (wire.Connection, error) { return conn.of(ctx, mailPlatform) })
	s.circuits = breaker.Mail(plugin, breaker.Options{
		Provider: mailPlatform, Log: s.log, Open: c.CircuitOpen, Budget: budgets{mailPlatform, s.host.Describe, s.limiter}.spend,
	})
	return telemetry.Mail(s.circuits, telemetry.CallOptions{Provider: mailPlatform, Log: s.log, CustomerData: c.TraceCustomerData})
}

func (s *service) useCases(c settings.Config, publicURL string, sealer ports.Sealer, o outside) {
	reader := dnsresolver.New(dnsresolver.Options{
		Resolvers: c.DNSResolvers, Recursive: c.DNSMode == "recursive", Port: c.DNSPort, AllowPrivate: c.DNSAllowPrivate, Now: o.now, Log: s.log,
	})
	pass := &settling.Pass{Platform: s.platform, Domains: s.store, DNS: reader, Now: o.now}
	s.keys = &keys.Service{Keys: s.store, Prefix: c.KeyPrefix, Random: rand.Reader, Now: o.now}
	s.tenants = &tenants.Service{
		Tenants: s.store, Assignments: s.store, Discovered: s.store, Domains: s.store, Flows: s.store, Accounts: s.store, Policies: s.store, Runs: s.store,
		Room: s.store, Platform: s.platform, Settling: pass, Sealer: sealer, Random: rand.Reader, Now: o.now, PublicURL: publicURL,
		RequireSMTPAuth: c.RequireSMTPAuth,
	}
	s.connections = &dnsconnections.Service{Connections: s.store, Providers: s.providers, Sealer: sealer, Now: o.now}
	s.domains = &domains.Service{
		Tenants: s.store, Domains: s.store, Platform: s.platform, DNS: reader, Settling: pass, Writes: s.store, DMARC: c.DMARCRecord, Now: o.now,
		Connections: s.connections,
	}
	s.dnsJobs(c, o)
	s.runs = &dnsruns.Service{
		Tenants: s.store, Domains: s.store, Runs: s.store, Survey: s.domains, Queue: s.queue, Random: rand.Reader, Now: o.now,
		Trace: telemetry.Traceparent,
	}
	s.enforcement = &enforcement.Service{Events: s.store, Keep: time.Duration(c.KeepEventsDays) * 24 * time.Hour, Now: o.now}
	s.sendLimits = &limits.Service{
		Tenants: s.store, Domains: s.store, Mailboxes: s.store, Policies: s.store, Platform: s.platform, Now: o.now,
	}
	s.mailboxes = &mailboxes.Service{
		Tenants: s.store, Domains: s.store, Mailboxes: s.store, Policies: s.store, Platform: s.platform, Settling: pass, Now: o.now,
		RequireSMTPAuth: c.RequireSMTPAuth,
	}
}

// handler is all that the API's listener serves.
func (s *service) handler() http.Handler {
	return httpapi.New(httpapi.Options{
		Keys: s.keys, Tenants: s.tenants, Domains: s.domains, DNSRuns: s.runs, Mailboxes: s.mailboxes, Integrations: s.integrations,
		Enforcement: s.enforcement, SendLimits: s.sendLimits,
		Idempotency: s.once, Limits: s.limits,
		Pages: console.New(console.Options{Tenants: s.tenants, Log: s.log}), Log: s.log,
		TrustedProxies: s.proxies,
	})
}

// flushTime is how long the last spans may take on their way out.
const flushTime = 2 * time.Second

// close ends the plugins, then what they were called from.
func (s *service) close(ctx context.Context) error {
	flushed := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		if err := s.flush(ctx); err != nil {
			s.log.Warn("the last telemetry did not leave", "error", err)
		}
		close(flushed)
	}()
	s.host.Close()
	err := errors.Join(s.limiter.Close(), s.queue.Close(ctx), s.store.Close())
	<-flushed
	return err
}
