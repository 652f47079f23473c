// SPDX-License-Identifier: Apache-2.0

// Package wiring assembles the service. It opens the store, the job queue, the rate limiter, the
// plugin host and the keyset from the settings. It builds the use cases on top of them and
// returns a Service. It also registers the gauges and lists the background jobs.
//
// The main types:
//
//   - Service holds the assembled parts. The server, the sandbox and some operator commands use
//     it.
//   - Overrides has values that the settings do not describe, such as the clock of the sandbox.
//   - Connections builds provider connections from the settings and the credential files.
//   - DNSProviders and sendingPlatforms return, for a provider's name, the port that calls the
//     provider's plugin. The calls pass a callChain: the measurement, and the circuit breaker with
//     the budgets.
//
// The files:
//
//   - service.go: Assemble, the HTTP handler, Close.
//   - open.go: opens and migrates the database, and opens the plugin folder. RecordAction writes an
//     audit event for an action that the store did not record.
//   - keyset.go: opens the keyset, and checks that it has the keys of all encrypted values.
//   - queue.go: the queue and the list of background jobs.
//   - webhooks.go: webhooks and their failpoints.
//   - connections.go, credentialfiles.go: operator settings, credential files and their expiry.
//   - callchain.go: the call chain, and the fingerprints of credentials. budgets.go: how many calls
//     a provider allows.
//   - dnsproviders.go: the ports of the DNS providers. sendingplatforms.go: the ports of the
//     sending platforms. descriptions.go: the cached descriptions of plugins.
//   - metrics.go: the gauges and counters of this process. metrics_stored.go and
//     metrics_webhooks.go: the gauges of stored data and of waiting jobs.
//
// Start with Assemble.
package wiring

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/console"
	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/events"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// unusableProviderRetry is the Retry-After of an answer that says that a provider is not
// configured, has an invalid setting, or does not run.
const unusableProviderRetry = time.Minute

// databaseOpenTimeout bounds how long the opening of the database or the queue may take. A
// migration may take longer.
const databaseOpenTimeout = 45 * time.Second

// describeTimeout bounds how long a step of the service's start waits for the descriptions of
// plugins.
const describeTimeout = 30 * time.Second

// telemetryFlushTimeout bounds the export of the last spans when the service closes.
const telemetryFlushTimeout = 2 * time.Second

// Overrides replaces parts of the service that the settings do not describe. `tenantry serve` sets
// ServerCertificate, and the sandbox sets the other fields. Zero values keep the defaults.
type Overrides struct {
	// ServerCertificate returns the TLS certificate that the API's listener uses. It also returns
	// an error if the files of the certificate cannot be used now. It is nil without TLS.
	ServerCertificate func() (inUse *tls.Certificate, err error)
	// Now is the clock.
	Now func() time.Time
	// Secrets are credentials of simulated providers, by provider and field. No file contains them.
	Secrets map[string]map[string]secret.Text
	// JobRetryPolicy is the retry policy of provisioning jobs.
	JobRetryPolicy provisioning.RetryPolicy
	// CountsTTL is how long the gauges of stored data reuse the counts of a query. The default is
	// storedCountsTTL.
	CountsTTL time.Duration
	// OperatorSettings are the settings that Assemble checks for unknown names, by provider and
	// name. The default is Config.Providers. The sandbox sets OperatorSettings, because it adds its
	// own settings to Config.Providers.
	OperatorSettings map[string]map[string]string
	// NameServers returns the name servers that a DNS provider has in a sandbox, in addition to
	// those that its plugin describes. The service uses them to detect the provider of a zone.
	// NameServers may be nil.
	NameServers func(provider string) []string
	// OnlyTenantsWithLimits excludes tenants without a send limit from the enforcement sweep.
	OnlyTenantsWithLimits bool
}

// Service has the parts of the assembled service. Assemble creates it, and the caller must call
// Close to release it.
type Service struct {
	Store    *bunstore.Store
	Database *databaseHealth
	Queue    jobQueue
	// RunsJobs is true if this process runs the background jobs.
	RunsJobs         bool
	limiter          *limiter.Limiter
	requestLimits    guard.Limits
	Host             *pluginhost.Host
	MailPlatform     string // the name of the mail platform's plugin
	mailCircuits     *breaker.Breaker
	mailSetting      func(name string) string // returns a setting of the mail platform
	facts            *platformFacts
	mailConnection   func(context.Context) (wire.Connection, error)
	credentialFiles  *CredentialFiles // the operator's credentials for all providers
	Platform         ports.MailPlatform
	dnsProviders     *DNSProviders
	sendingPlatforms *sendingPlatforms

	keys *keys.Service
	// KeyUses collects the last uses of API keys. KeyUses.Run stores them. Close stores the uses
	// that are not stored yet.
	KeyUses      *keys.Uses
	Tenants      *tenants.Service
	domains      *domains.Service
	Connections  *dnsconnections.Service
	mailboxes    *mailboxes.Service
	integrations *integrations.Service
	enforcement  *enforcement.Service
	audits       *audits.Service
	Enforcer     *enforcement.Runner
	sendLimits   *limits.Service
	Events       *events.Service
	dnsRuns      *dnsruns.Service
	DNSUndo      *dnsruns.Undo
	webhooks     *webhooks.Service
	idempotency  guard.Idempotency

	// WebhookWorker creates the deliveries of webhooks and sends them. server.Run starts it, and
	// StopQueue stops it.
	WebhookWorker *webhooks.Worker

	dnsWorker   *dnsruns.Worker
	domainWatch *domains.Watch

	Metrics        *prometheus.Registry
	Log            *slog.Logger
	flushTelemetry func(context.Context) error

	// serverCertificate is Overrides.ServerCertificate.
	serverCertificate func() (inUse *tls.Certificate, err error)
	// APIConnections limits the connections of the API's listener.
	APIConnections        *httpapi.ConnectionLimit
	trustedProxies        []netip.Prefix
	DrainTime, DrainDelay time.Duration
	// Draining is true after a stop was requested.
	Draining atomic.Bool
}

// Assemble opens the adapters and builds the use cases, in the order of their dependencies.
// publicURL is the URL at which browsers reach the service. Assemble fails when a setting is
// invalid or when the database, the queue, the plugin folder or the keyset cannot be opened. It
// also fails when telemetry cannot be started or a metric cannot be registered. Before Assemble
// returns an error, it closes the database, the queue, the limiter and the plugin host, if it
// opened them.
func Assemble(ctx context.Context, c settings.Config, log *slog.Logger, publicURL string, o Overrides) (*Service, error) {
	tuneGC()
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{Log: log, Metrics: prometheus.NewRegistry(), RunsJobs: c.Worker, DrainTime: c.DrainTime, DrainDelay: c.DrainDelay}
	s.credentialFiles, s.serverCertificate = &CredentialFiles{log: log}, o.ServerCertificate
	var err error
	if s.trustedProxies, err = c.Proxies(); err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	s.APIConnections = &httpapi.ConnectionLimit{Max: c.MaxConnections, TrustedProxies: s.trustedProxies, Log: log}
	s.flushTelemetry, err = telemetry.Start(ctx, telemetry.Options{Service: "tenantry", Version: cli.Version, Log: log, Registry: s.Metrics})
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if s.Store, err = OpenStore(ctx, c, bunstore.Options{Log: log, Now: o.Now, RequirePrimary: true}); err != nil {
		return nil, err
	}
	s.Database = &databaseHealth{ping: s.Store.Ping}
	if s.Queue, err = OpenQueue(ctx, c, log); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	if s.limiter, err = limiter.Open(ctx, limiter.Options{URL: c.RedisURL, AnswerTimeout: c.RedisTimeout, Log: log}); err != nil {
		return nil, errors.Join(err, s.Queue.Close(ctx), s.Store.Close())
	}
	s.requestLimits = guard.Limits{Counters: s.limiter, Off: c.Limits == "off", MaxInFlight: c.MaxInFlight}
	if s.Host, err = openHost(c, s.limiter, log); err != nil {
		return nil, errors.Join(err, s.limiter.Close(), s.Queue.Close(ctx), s.Store.Close())
	}
	if err := CheckMailPlatform(s.Host, c.MailPlatform, c.PluginDir); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	operatorSettings := c.Providers
	if o.OperatorSettings != nil {
		operatorSettings = o.OperatorSettings
	}
	if err := s.checkProviderSettings(ctx, operatorSettings); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	// The keyset is opened after the adapters above, so that no new keyset is left behind if one of
	// them cannot be opened.
	sealer, err := OpenKeyset(ctx, c, s.Store, secrets.CreateMissing)
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	sealer.Log = log
	if s.Platform, err = s.openMailPlatform(c, o); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	options := providerOptions{host: s.Host, counters: s.limiter, fingerprinter: sealer, log: log, files: s.credentialFiles, secrets: o.Secrets, nameServers: o.NameServers}
	if s.dnsProviders, err = newDNSProviders(c, options); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	if s.sendingPlatforms, err = newSendingPlatforms(c, options); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	s.initUseCases(c, publicURL, sealer, o)
	if err := s.initIntegrations(sealer, o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.Close(ctx))
	}
	if err := s.initWebhooks(c, sealer, o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.Close(ctx))
	}
	if err := s.InitEnforcer(o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.Close(ctx))
	}
	s.idempotency = guard.Idempotency{Keys: s.Store, Sealer: sealer, Fingerprinter: sealer, Now: o.Now}
	if err := s.initDomainWatch(c, o); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.Close(ctx))
	}
	if err := errors.Join(s.registerProcessMetrics(c), s.registerStoredGauges(o.Now, cmp.Or(o.CountsTTL, storedCountsTTL))); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), s.Close(ctx))
	}
	return s, nil
}

// memoryTarget is the soft memory limit of the Go runtime. When the memory is near this limit, the
// runtime collects garbage more often.
const memoryTarget = 128 << 20

// tuneGC lets the heap grow to five times the live heap before a collection, not to twice the live
// heap as by default. The live heap is about ten megabytes. With Go's default, collections took an
// eighth of the CPU time of a list request. Many connections enlarge the live heap, so memoryTarget
// bounds the growth. If GOGC or GOMEMLIMIT is set, it takes precedence.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryTarget)
	}
}

// openMailPlatform returns the mail platform's port. Each call passes the interceptors of its call
// chain on the way to the plugin.
func (s *Service) openMailPlatform(c settings.Config, o Overrides) (ports.MailPlatform, error) {
	connections := Connections{Settings: c.Providers, secrets: o.Secrets, Files: s.credentialFiles, Describe: s.Host.Describe}
	name := c.MailPlatform
	chain, err := newCallChain(c, name, s.Host.Describe, s.limiter, s.Log)
	if err != nil {
		return nil, err
	}
	s.MailPlatform, s.mailCircuits = name, chain.circuits
	s.mailSetting = func(setting string) string { return c.Providers[name][setting] }
	for setting, path := range c.Providers[name] {
		if strings.HasSuffix(setting, "_file") && path != "" {
			s.credentialFiles.add(credentialSetting{name, setting}, path)
		}
	}
	s.mailConnection = func(ctx context.Context) (wire.Connection, error) { return connections.OperatorConnection(ctx, name) }
	return s.Host.Mail(name, s.mailConnection, chain.mailInterceptors()...), nil
}

func (s *Service) initUseCases(c settings.Config, publicURL string, sealer ports.Sealer, o Overrides) {
	dnsReader := dnsresolver.New(dnsresolver.Options{
		Resolvers: c.DNSResolvers, Recursive: c.DNSMode == "recursive", Port: c.DNSPort, AllowPrivate: c.DNSAllowPrivate, Now: o.Now, Log: s.Log,
	})
	s.facts = &platformFacts{describe: newDescriptionCache(providerOptions{host: s.Host, log: s.Log}).describe, name: s.MailPlatform}
	reconciler := &reconcile.Reconciler{Platform: s.Platform, Domains: s.Store, DNS: dnsReader, Facts: s.facts, Now: o.Now}
	s.KeyUses = &keys.Uses{Store: s.Store, Log: s.Log}
	s.keys = &keys.Service{Keys: s.Store, AccountKeys: s.Store, Prefix: c.KeyPrefix, Random: rand.Reader, Now: o.Now, Uses: s.KeyUses}
	s.Tenants = &tenants.Service{
		Tenants: s.Store, Assignments: s.Store, Discoveries: s.Store, Domains: s.Store, Flows: s.Store, Sessions: s.Store, Settings: s.Store, Accounts: s.Store, Policies: s.Store, Claims: s.Store,
		Capacity: s.Store, Platform: s.Platform, Reconciler: reconciler, Sealer: sealer, Random: rand.Reader, Now: o.Now, PublicURL: publicURL, PlatformName: s.MailPlatform,
		RequireSMTPAuth: c.RequireSMTPAuth,
	}
	s.Connections = &dnsconnections.Service{Connections: s.Store, Providers: s.dnsProviders, Sealer: sealer, Now: o.Now}
	s.domains = &domains.Service{Removals: s.Store, Steps: &domainsteps.Steps{
		Tenants: s.Store, Domains: s.Store, Platform: s.Platform, DNS: dnsReader, Facts: s.facts, Reconciler: reconciler, Writes: s.Store, DMARC: c.DMARCRecord, Now: o.Now,
		Connections: s.Connections,
	}}
	s.initDNSWorker(c, o)
	s.dnsRuns = &dnsruns.Service{
		Tenants: s.Store, Domains: s.Store, Runs: s.Store, Survey: s.domains, Queue: s.Queue, Random: rand.Reader, Now: o.Now,
		Trace: telemetry.Traceparent,
	}
	s.DNSUndo = &dnsruns.Undo{Writes: s.Store, Zones: s.domains, Now: o.Now}
	s.audits = &audits.Service{Chains: s.Store, Retention: time.Duration(c.KeepAuditDays) * 24 * time.Hour, Now: o.Now}
	s.enforcement = &enforcement.Service{Events: s.Store, Retention: time.Duration(c.KeepEventsDays) * 24 * time.Hour, Now: o.Now}
	s.Events = &events.Service{Events: s.Store, Retention: time.Duration(c.KeepLogDays) * 24 * time.Hour, Now: o.Now, Log: s.Log}
	s.sendLimits = &limits.Service{
		Tenants: s.Store, Domains: s.Store, Mailboxes: s.Store, Policies: s.Store, Claims: s.Store, Removals: s.Store, Platform: s.Platform, Now: o.Now,
	}
	s.mailboxes = &mailboxes.Service{
		Tenants: s.Store, Domains: s.Store, Mailboxes: s.Store, Policies: s.Store, Platform: s.Platform, Reconciler: reconciler, Now: o.Now,
		Removals: s.Store, RequireSMTPAuth: c.RequireSMTPAuth,
	}
}

// Handler returns the handler of the API's listener: the API and the connect pages.
func (s *Service) Handler() http.Handler {
	return httpapi.New(httpapi.Options{
		Profile: &keys.Profile{Tenants: s.Store, Platforms: s.sendingPlatforms, Providers: s.dnsProviders, Connections: s.Store},
		Tenants: s.Tenants, Domains: s.domains, DNSRuns: s.dnsRuns, Mailboxes: s.mailboxes, Integrations: s.integrations,
		Enforcement: s.enforcement, SendLimits: s.sendLimits, Events: s.Events, Audit: s.audits, Webhooks: s.webhooks,
		Guard: guard.Options{
			Keys: s.keys, Idempotency: s.idempotency, Audit: s.Store, Limits: s.requestLimits,
			Pages: console.New(console.Options{Tenants: s.Tenants, Log: s.Log, Platform: s.MailPlatform, Facts: s.facts, Setting: s.mailSetting}), Log: s.Log,
			TrustedProxies: s.trustedProxies,
		},
	})
}

// Close stops the plugins, stores the last uses of API keys, and closes the limiter, the queue and
// the store. At the same time it exports the last telemetry. Close returns the errors of the
// limiter, the queue and the store. It only logs the other failures.
func (s *Service) Close(ctx context.Context) error {
	var flush panics.Group
	flush.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, telemetryFlushTimeout)
		defer cancel()
		if err := s.flushTelemetry(ctx); err != nil {
			s.Log.Warn("the last telemetry was not exported", "error", err)
		}
	})
	s.Host.Close()
	if s.KeyUses != nil { // nil if Assemble failed before initUseCases
		if err := s.KeyUses.Save(ctx); err != nil {
			s.Log.Warn("the last uses of API keys were not stored", "error", err)
		}
	}
	err := errors.Join(s.limiter.Close(), s.Queue.Close(ctx), s.Store.Close())
	flush.Wait()
	return err
}
