// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

const (
	tenantGUID = tenant.GUID("22222222-2222-4333-8444-555555555555")
	zone       = "example.test"
)

var (
	must       = apptest.Must
	inFakeTime = apptest.InFakeTime
)

var fixtureStart = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// fixture is a worker over a database and the fakes. It has a ready tenant, a domain, and a
// provider whose zone is public.
type fixture struct {
	*Worker
	store      *bunstore.Store
	fake       *fake.Platform
	providers  *fake.DNSProviders
	provider   *publishingProvider
	sealer     ports.Sealer
	account    access.Account
	domain     domain.Domain
	wakeups    *fake.Wakeups
	clock      time.Time
	endFailure func() // set by requiredActionAt; ends the failure of the mail platform
}

func newFixture(t *testing.T) *fixture { return newFixtureIn(t, bunstore.MemoryURL) }

// newFixtureIn returns a fixture in an empty database.
func newFixtureIn(t *testing.T, url string) *fixture {
	t.Helper()
	fx := &fixture{fake: fake.New(), providers: &fake.DNSProviders{}, wakeups: &fake.Wakeups{}, clock: fixtureStart}
	fx.store, fx.sealer = apptest.OpenStore(t, url), apptest.NewSealer(t)
	fx.Worker = fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers})
	fx.fake.Connect(tenantGUID, fake.Setup{})
	fx.fake.DNS.Publish(zone)
	var err error
	fx.account, err = fx.store.CreateAccount(t.Context(), "worker@example.com", "complete", 0, fx.clock)
	must(t, err)
	_, err = fx.store.Attach(t.Context(), fx.account.ID, tenant.Tenant{GUID: tenantGUID, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: fx.clock})
	must(t, err)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapReady, tenant.ConsentGranted })
	added, err := (&domains.Service{Steps: fx.Domains}).Add(t.Context(), fx.account, tenantGUID, zone, nil)
	must(t, err)
	fx.domain = added.Domain
	fx.provider = &publishingProvider{DNSProvider: &fake.DNSProvider{}, publicDNS: fx.fake.DNS}
	fx.provider.AddZone(zone)
	fx.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.NS, Values: []string{"ns1.fake.test", "ns2.fake.test"}})
	fx.providers.AddProvider(dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}})
	return fx
}

// dependencies holds the ports of a worker that tests replace.
type dependencies struct {
	platform  ports.MailPlatform
	domains   ports.Domains
	jobs      ports.DNSJobs
	providers ports.DNSProviders
}

// worker returns the worker of a new process, with these dependencies.
func (fx *fixture) worker(deps dependencies) *Worker {
	now := func() time.Time { return fx.clock }
	reconciler := &reconcile.Reconciler{Platform: deps.platform, Domains: deps.domains, DNS: fx.fake.DNS, Facts: fx.fake, Now: now, Timeout: apptest.HangTimeout, Pause: time.Millisecond}
	return &Worker{
		Jobs: deps.jobs, Queue: fx.wakeups, Fence: wire.Fence{}, RetryPolicy: provisioning.DefaultRetryPolicy, Now: now, Chance: func() float64 { return 0 },
		Log: slog.New(slog.DiscardHandler),
		RunInSpan: func(ctx context.Context, _ provisioning.Job, _ provisioning.Step, do func(context.Context) error) {
			_ = do(ctx)
		},
		Domains: &domainsteps.Steps{
			Tenants: fx.store, Domains: deps.domains, Platform: deps.platform, DNS: fx.fake.DNS, Facts: fx.fake, Reconciler: reconciler, Now: now,
			Writes:      fx.store,
			Connections: &dnsconnections.Service{Connections: fx.store, Providers: deps.providers, Sealer: fx.sealer, Now: now},
		},
	}
}

// connect adds a connection of the account. Later calls with its credential go to the given
// provider.
func (fx *fixture) connect(t *testing.T, provider ports.DNSProvider) {
	t.Helper()
	fx.providers.AddAccount("cloudflare", "token", &fake.DNSProvider{})
	_, err := fx.Domains.Connections.Add(t.Context(), dnsconnections.NewConnection{Account: fx.account.ID, Provider: "cloudflare",
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New("token")}}})
	must(t, err)
	fx.providers.AddAccount("cloudflare", "token", provider)
}

func (fx *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, fx.store, fx.account.ID, tenantGUID, change)
}

// createJob stores a run with a job for the domain. It first applies the changes to the job.
func (fx *fixture) createJob(t *testing.T, changes ...func(*provisioning.Job)) provisioning.Job {
	t.Helper()
	const runID, jobID = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
	j := provisioning.NewJob(jobID, runID, fx.account.ID, fx.domain.ID, tenantGUID, zone, fx.clock)
	for _, change := range changes {
		change(&j)
	}
	must(t, fx.store.CreateRun(t.Context(), provisioning.Run{ID: runID, Account: fx.account.ID, TotalDomains: 1, CreatedAt: fx.clock}, []provisioning.Job{j}, nil))
	return j
}

func (fx *fixture) job(t *testing.T, id string) provisioning.Job {
	t.Helper()
	j, err := fx.store.Job(t.Context(), fx.account.ID, id)
	must(t, err)
	return j
}

// run executes a job, including all its waits, until it ends or requires an action.
func (fx *fixture) run(t *testing.T, worker *Worker, id string) provisioning.Job {
	t.Helper()
	for range 2000 {
		must(t, worker.Handle(t.Context(), ports.Wakeup{Kind: Kind, ID: id}))
		j := fx.job(t, id)
		if j.Status != provisioning.Waiting {
			return j
		}
		fx.wait(j.NextAttemptAt)
	}
	t.Fatalf("after 2000 attempts the job still waits: %+v", fx.job(t, id))
	return provisioning.Job{}
}

// wait moves the clocks of the fixture and of the fake platform forward to until.
func (fx *fixture) wait(until time.Time) {
	fx.fake.Advance(max(0, until.Sub(fx.clock)))
	if until.After(fx.clock) {
		fx.clock = until
	}
}

// publishingProvider is a provider whose zones become public as soon as they are written, unless
// hidden is set.
type publishingProvider struct {
	*fake.DNSProvider
	publicDNS *fake.DNS
	hidden    bool

	mu      sync.Mutex
	applied [][]dns.Change
}

func (p *publishingProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	sets, err := p.DNSProvider.Apply(ctx, z, changes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.applied = append(p.applied, changes)
	}
	p.show(ctx, z)
	return sets, err
}

// show publishes the records of the zone, unless hidden is set.
func (p *publishingProvider) show(ctx context.Context, z dns.Zone) {
	if p.hidden {
		return
	}
	recordSets, err := p.Records(context.WithoutCancel(ctx), dns.Zone{ID: z.Name, Name: z.Name})
	for i, s := range recordSets {
		if s.Veiled {
			recordSets[i].Type, recordSets[i].Values = dns.A, []string{"192.0.2.80"}
		}
	}
	if err == nil {
		p.publicDNS.Publish(z.Name, records(recordSets)...)
	}
}

// records returns each value of the record sets as a record.
func records(sets []dns.RRSet) (list []dns.Record) {
	for _, s := range sets {
		for _, value := range s.Values {
			r := dns.Record{Type: s.Type, Name: s.Name, Content: value, TTL: s.TTL}
			if s.Type == dns.MX {
				preference, host, _ := strings.Cut(value, " ")
				r.Preference, _ = strconv.Atoi(preference)
				r.Content = host
			}
			list = append(list, r)
		}
	}
	return list
}

// requireOneOfEach requires that no record set of the zone has a value twice. The domain must have
// one MX and two TXT values: the ownership record and SPF. VerifyDomain, EnableMail, EnsureSigning
// and EnableSigning must each have taken effect once.
func (fx *fixture) requireOneOfEach(t *testing.T) {
	t.Helper()
	records, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	for _, s := range records {
		if sorted := slices.Sorted(slices.Values(s.Values)); len(slices.Compact(sorted)) != len(s.Values) {
			t.Errorf("%s %s has the values %q, want each once", s.Name, s.Type, s.Values)
		}
		if s.Name == zone && s.Type == dns.TXT && len(s.Values) != 2 || s.Type == dns.MX && len(s.Values) != 1 {
			t.Errorf("%s %s has %q, want two texts or one MX", s.Name, s.Type, s.Values)
		}
	}
	for _, method := range []string{"VerifyDomain", "EnableMail", "EnsureSigning", "EnableSigning"} {
		if n := fx.fake.Effects(method); n != 1 {
			t.Errorf("%s took effect %d times, want once", method, n)
		}
	}
}

// requireHealthy requires that the job completed, and that the domain works.
func (fx *fixture) requireHealthy(t *testing.T, j provisioning.Job) {
	t.Helper()
	d, err := fx.store.DomainByID(t.Context(), fx.account.ID, fx.domain.ID)
	must(t, err)
	if j.Status != provisioning.Completed || j.Stage != provisioning.StageDone || j.RequiredAction != "" {
		t.Fatalf("the job is %+v, want it completed", j)
	}
	if !d.Verified || !d.DKIMEnabled || !d.MailReady || d.Status.DKIM != dns.DKIMHealthy || d.Status.SPF == dns.Missing || d.Status.MX == dns.Missing {
		t.Fatalf("the domain is %+v, want it verified and ready for mail, with DKIM, SPF and MX", d)
	}
	fx.requireOneOfEach(t)
}

func TestMain(m *testing.M) {
	if point := os.Getenv(pausePointEnv); point != "" {
		runSecondProcess(point)
		return
	}
	leaks.VerifyTestMain(m)
}
