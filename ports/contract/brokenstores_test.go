// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of a store.
type (
	sharedAddresses struct{ accountsPort }
	planForever     struct {
		accountsPort
		all Stores
	}
	immortalKeys struct {
		keysPort
		all Stores
	}
	looseRotation    struct{ keysPort }
	membersOfAnybody struct {
		keysPort
		all Stores
	}
	keepsSlots struct{ accountsPort }
	halfClosed struct {
		accountsPort
		all Stores
	}
	keepsLog struct {
		accountsPort
		all Stores
	}
	reopened         struct{ accountsPort }
	revokedAnew      struct{ issuedKeysPort }
	nameless         struct{ issuedKeysPort }
	silentActs       struct{ auditPort }
	namelessOperator struct{ auditPort }
	oldActsFirst     struct{ auditPort }
	twiceTold        struct {
		assignmentsPort
		all Stores
	}
	noSecrets        struct{ tenantsPort } // tells foreign from unknown
	oldestFirst      struct{ tenantsPort }
	endlessSlots     struct{ tenantsPort }
	slotPerConsent   struct{ tenantsPort }
	staleConsent     struct{ tenantsPort }
	forgetful        struct{ assignmentsPort }
	deafToContext    struct{ tenantsPort }
	countsFirst      struct{ racing }
	listsUnfinished  struct{ domainsPort }
	twelveAndMore    struct{ domainsPort }
	alwaysFresh      struct{ domainsPort }
	dropsAdded       struct{ domainsPort }
	halfPairs        struct{ mailboxStorePort }
	unordered        struct{ mailboxStorePort }
	limitOverwritten struct{ mailboxStorePort }
	nilIsEmpty       struct{ discoveredPort }
	keepsVanished    struct{ discoveredPort }
	neverLater       struct{ discoveredPort }
	flowForever      struct{ connectFlowsPort }
	flowSavedLate    struct{ connectFlowsPort }
	dropsAllFlows    struct{ connectFlowsPort }
)

func (b sharedAddresses) CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error) {
	a, err := b.accountsPort.CreateAccount(ctx, email, plan, slots, now)
	if err != nil && plan == "complete" {
		return b.accountsPort.CreateAccount(ctx, fmt.Sprintf("%p%s", &a, email), plan, slots, now)
	}
	return a, err
}

func (b planForever) SetActive(ctx context.Context, id access.AccountID, _ bool) (access.Account, error) {
	return b.all.Account(ctx, id)
}

// keepsSlots keeps slots of the account's own under a new plan.
func (b keepsSlots) ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	a, err := b.FindAccount(ctx, string(id))
	if err != nil {
		return a, err
	}
	return b.accountsPort.ChangePlan(ctx, id, plan, cmp.Or(slots, a.OwnSlots))
}

// halfClosed closes an account but for one tenant.
func (b halfClosed) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, _ ...string) (ports.Closing, error) {
	held, _ := b.all.Tenants(ctx, id)
	done, err := b.accountsPort.CloseAccount(ctx, id, now)
	if err == nil && len(held) > 0 {
		a, _ := b.CreateAccount(ctx, "hidden@example.test", "complete", 0, now)
		_, _ = b.all.Attach(ctx, a.ID, held[0], 100)
	}
	return done, err
}

func (b keepsLog) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, left ...string) (ports.Closing, error) {
	log, _ := b.all.Events(ctx, id, ports.EventQuery{Limit: 9})
	done, err := b.accountsPort.CloseAccount(ctx, id, now, left...)
	_ = b.all.RecordEvents(ctx, id, log.Events)
	return done, err
}

func (b reopened) SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error) {
	a, err := b.accountsPort.SetActive(ctx, id, active)
	if errors.Is(err, fault.AccountClosed) {
		return a, nil
	}
	return a, err
}

func (b revokedAnew) RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error) {
	k, err := b.issuedKeysPort.RevokeKey(ctx, id, now)
	k.RevokedAt = now
	return k, err
}

func (b nameless) ReplaceKey(ctx context.Context, id string, fresh access.Key) (access.Key, error) {
	k, err := b.issuedKeysPort.ReplaceKey(ctx, id, fresh)
	k.Name = fresh.Name
	return k, err
}

// silentActs does not remember suspensions.
func (b silentActs) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.auditPort.AuditEvents(ctx, q)
	return slices.DeleteFunc(all, func(e audit.Event) bool { return e.Action == audit.SuspendAccount }), err
}

func (b namelessOperator) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.auditPort.AuditEvents(ctx, q)
	for i := range all {
		all[i].Operator = "unknown"
	}
	return all, err
}

func (b oldActsFirst) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.auditPort.AuditEvents(ctx, q)
	slices.Reverse(all)
	return all, err
}

// twiceTold records what it refuses.
func (b twiceTold) Withdraw(ctx context.Context, id tenant.GUID, _ ...string) (access.AccountID, error) {
	owner, err := b.assignmentsPort.Withdraw(ctx, id)
	if err != nil {
		_ = b.all.RecordAct(ctx, audit.WithdrawTenant, nil)
	}
	return owner, err
}

func (b immortalKeys) RotateKey(ctx context.Context, _ access.AccountID, _ string, fresh access.Key) error {
	return b.all.AddKey(ctx, fresh)
}

func (b looseRotation) RotateKey(ctx context.Context, owner access.AccountID, id string, fresh access.Key) error {
	_ = b.keysPort.RotateKey(ctx, owner, id, fresh)
	return nil
}

func (b membersOfAnybody) Member(ctx context.Context, _ access.AccountID, email string) (bool, error) {
	_, err := b.all.FindAccount(ctx, email)
	return err == nil, nil
}

func (b noSecrets) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	t, err := b.tenantsPort.Tenant(ctx, owner, id)
	if _, held := b.tenantsPort.Attach(ctx, owner, tenant.Tenant{GUID: id}, 0); err != nil && held != nil {
		return t, fault.AccessDenied.With("not yours")
	}
	return t, err
}

func (b oldestFirst) Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	list, err := b.tenantsPort.Tenants(ctx, owner)
	slices.Reverse(list)
	return list, err
}

func (b endlessSlots) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, _ int) (tenant.Tenant, error) {
	return b.tenantsPort.Attach(ctx, owner, t, 1000)
}

func (b slotPerConsent) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	if n, err := b.TenantCount(ctx, owner); err == nil && n >= slots {
		return tenant.Tenant{}, fault.TenantLimitReached.With("full")
	}
	return b.tenantsPort.Attach(ctx, owner, t, slots)
}

// countsFirst counts outside the transaction that takes the slot.
func (b countsFirst) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	held, err := b.TenantCount(ctx, owner)
	if _, known := b.Tenant(ctx, owner, t.GUID); known != nil && err == nil && held >= slots {
		return tenant.Tenant{}, fault.TenantLimitReached.With("full")
	}
	b.meet()
	return b.Stores.Attach(ctx, owner, t, 1000)
}

func (b staleConsent) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	if now, err := b.Tenant(ctx, owner, t.GUID); err == nil {
		t.ConsentedAt = now.ConsentedAt
	}
	return b.tenantsPort.SaveTenant(ctx, owner, t)
}

func (b forgetful) Withdrawn(context.Context, access.AccountID, tenant.GUID) (bool, error) {
	return false, nil
}

func (b deafToContext) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	return b.tenantsPort.Attach(context.WithoutCancel(ctx), owner, t, slots)
}

func (b listsUnfinished) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	d, err := b.domainsPort.ReserveDomain(ctx, owner, id, name, most, now)
	if err == nil && !d.Added {
		d.Added = true
		err = b.SaveDomain(ctx, owner, d)
		d.Added = false
	}
	return d, err
}

func (b twelveAndMore) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	return b.domainsPort.ReserveDomain(ctx, owner, id, name, most+1, now)
}

func (b alwaysFresh) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	d, err := b.domainsPort.ReserveDomain(ctx, owner, id, name, most, now)
	d.Fresh = err == nil
	return d, err
}

func (b dropsAdded) ReleaseDomain(ctx context.Context, owner access.AccountID, id string) error {
	if d, err := b.DomainByID(ctx, owner, id); err == nil {
		d.Added = false
		_ = b.SaveDomain(ctx, owner, d)
	}
	return b.domainsPort.ReleaseDomain(ctx, owner, id)
}

func (b halfPairs) ReserveMailboxes(ctx context.Context, owner access.AccountID, id string, specs []mailbox.Spec, most int, now time.Time) ([]mailbox.Mailbox, error) {
	var all []mailbox.Mailbox
	for _, one := range specs {
		m, err := b.mailboxStorePort.ReserveMailboxes(ctx, owner, id, []mailbox.Spec{one}, most, now)
		if err != nil {
			return nil, err
		}
		all = append(all, m...)
	}
	return all, nil
}

func (b unordered) ReserveMailboxes(ctx context.Context, owner access.AccountID, id string, specs []mailbox.Spec, most int, now time.Time) ([]mailbox.Mailbox, error) {
	all, err := b.mailboxStorePort.ReserveMailboxes(ctx, owner, id, specs, most, now)
	slices.SortFunc(all, func(x, y mailbox.Mailbox) int { return len(x.ID+x.Address) - len(y.ID+y.Address) })
	slices.Reverse(all)
	return all, err
}

func (b limitOverwritten) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	if err := b.mailboxStorePort.SaveMailbox(ctx, owner, m); err != nil {
		return err
	}
	return b.SetSendLimit(ctx, owner, m.ID, m.DailySendLimit, now)
}

func (b nilIsEmpty) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Domains, f.Mailboxes = append([]domain.Domain{}, f.Domains...), append([]mailbox.Platform{}, f.Mailboxes...)
	return b.discoveredPort.SaveDiscovery(ctx, owner, id, f)
}

func (b keepsVanished) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = f.Began.Add(-1000 * time.Hour)
	return b.discoveredPort.SaveDiscovery(ctx, owner, id, f)
}

func (b neverLater) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = f.Began.Add(1000 * time.Hour)
	return b.discoveredPort.SaveDiscovery(ctx, owner, id, f)
}

func (b flowForever) TakeFlow(ctx context.Context, hash [32]byte, from, to ports.ConnectStep, _ time.Time) (ports.ConnectFlow, error) {
	return b.connectFlowsPort.TakeFlow(ctx, hash, from, to, time.Time{})
}

func (b flowSavedLate) SaveFlow(ctx context.Context, f ports.ConnectFlow) error {
	_ = b.connectFlowsPort.SaveFlow(ctx, f)
	return nil
}

func (b dropsAllFlows) DropFlows(ctx context.Context, before time.Time) error {
	return b.connectFlowsPort.DropFlows(ctx, before.Add(1000*time.Hour))
}

// TestStoreSuitesNoticeBrokenPromises breaks one promise at a time.
func TestStoreSuitesNoticeBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	tenants, mailboxes := append(tenantChecks, attachChecks...), append(storedMailboxChecks, reserveMailboxChecks...)
	found := append(discoveredDomainChecks, discoveredMailboxChecks...)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"an address has two accounts":       {accountChecks, func(s Stores) Stores { return with(s, sharedAddresses{s}) }},
		"a plan cannot be switched off":     {keyChecks, func(s Stores) Stores { return with(s, planForever{s, s}) }},
		"a plan keeps slots of before":      {accountChecks, func(s Stores) Stores { return with(s, keepsSlots{s}) }},
		"a tenant of a closed account":      {closingChecks, func(s Stores) Stores { return with(s, halfClosed{s, s}) }},
		"a closed account keeps its log":    {closingChecks, func(s Stores) Stores { return with(s, keepsLog{s, s}) }},
		"a closed account is resumed":       {closingChecks, func(s Stores) Stores { return with(s, reopened{s}) }},
		"revoking again moves the time":     {issuedKeyChecks, func(s Stores) Stores { return with(s, revokedAnew{s}) }},
		"a replaced key loses its name":     {issuedKeyChecks, func(s Stores) Stores { return with(s, nameless{s}) }},
		"an act goes unrecorded":            {actChecks(), func(s Stores) Stores { return with(s, silentActs{s}) }},
		"nobody acted":                      {auditChecks, func(s Stores) Stores { return with(s, namelessOperator{s}) }},
		"acts oldest first":                 {auditChecks, func(s Stores) Stores { return with(s, oldActsFirst{s}) }},
		"a refusal is recorded":             {auditChecks, func(s Stores) Stores { return with(s, twiceTold{s, s}) }},
		"rotated keys stay alive":           {keyChecks, func(s Stores) Stores { return with(s, immortalKeys{s, s}) }},
		"every rotation claims to win":      {keyChecks, func(s Stores) Stores { return with(s, looseRotation{s}) }},
		"members of any account":            {keyChecks, func(s Stores) Stores { return with(s, membersOfAnybody{s, s}) }},
		"foreign differs from unknown":      {tenants, func(s Stores) Stores { return with(s, noSecrets{s}) }},
		"tenants oldest first":              {tenants, func(s Stores) Stores { return with(s, oldestFirst{s}) }},
		"no ceiling":                        {tenants, func(s Stores) Stores { return with(s, endlessSlots{s}) }},
		"a renewal takes a slot":            {tenants, func(s Stores) Stores { return with(s, slotPerConsent{s}) }},
		"slots are counted before the lock": {oneCheck(attachChecks, "a crowd takes exactly the slots there are"), func(s Stores) Stores { return countsFirst{race(s)} }},
		"an old save revokes a new consent": {tenants, func(s Stores) Stores { return with(s, staleConsent{s}) }},
		"an ended context is ignored":       {tenants, func(s Stores) Stores { return with(s, deafToContext{s}) }},
		"withdrawals are forgotten":         {assignmentChecks, func(s Stores) Stores { return with(s, forgetful{s}) }},
		"unfinished domains are listed":     {storedDomainChecks, func(s Stores) Stores { return with(s, listsUnfinished{s}) }},
		"one domain too many":               {storedDomainChecks, func(s Stores) Stores { return with(s, twelveAndMore{s}) }},
		"an old place counts as fresh":      {storedDomainChecks, func(s Stores) Stores { return with(s, alwaysFresh{s}) }},
		"an added domain is given back":     {storedDomainChecks, func(s Stores) Stores { return with(s, dropsAdded{s}) }},
		"half of a refused pair stays":      {mailboxes, func(s Stores) Stores { return with(s, halfPairs{s}) }},
		"places out of order":               {mailboxes, func(s Stores) Stores { return with(s, unordered{s}) }},
		"saving overwrites the limit":       {mailboxes, func(s Stores) Stores { return with(s, limitOverwritten{s}) }},
		"no list is an empty list":          {found, func(s Stores) Stores { return with(s, nilIsEmpty{s}) }},
		"what vanished stays":               {found, func(s Stores) Stores { return with(s, keepsVanished{s}) }},
		"what came later goes":              {found, func(s Stores) Stores { return with(s, neverLater{s}) }},
		"flows do not expire":               {flowChecks, func(s Stores) Stores { return with(s, flowForever{s}) }},
		"a flow is saved after it moved on": {flowChecks, func(s Stores) Stores { return with(s, flowSavedLate{s}) }},
		"live flows are dropped":            {flowChecks, func(s Stores) Stores { return with(s, dropsAllFlows{s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}

// Under these names a double can embed a port: its own name may be that of a method.
type (
	accountsPort          = ports.Accounts
	issuedKeysPort        = ports.IssuedKeys
	keysPort              = ports.Keys
	tenantsPort           = ports.Tenants
	assignmentsPort       = ports.Assignments
	discoveredPort        = ports.Discovered
	domainsPort           = ports.Domains
	domainChecksPort      = ports.DomainChecks
	mailboxStorePort      = ports.MailboxStore
	connectFlowsPort      = ports.ConnectFlows
	dnsConnectionsPort    = ports.DNSConnections
	dnsWritesPort         = ports.DNSWrites
	dnsRunsPort           = ports.DNSRuns
	dnsJobsPort           = ports.DNSJobs
	integrationsPort      = ports.Integrations
	connectionsPort       = ports.Connections
	sendPoliciesPort      = ports.SendPolicies
	sendDaysPort          = ports.SendDays
	sendRunsPort          = ports.SendRuns
	sendRoomPort          = ports.SendRoom
	sendWatchPort         = ports.SendWatch
	enforcementEventsPort = ports.EnforcementEvents
	auditPort             = ports.Audit
	idempotencyPort       = ports.Idempotency
)

// parts is a store whose ports can be replaced one by one. Embedding Stores in each double instead
// would make the compiler write two hundred methods for each.
type parts struct {
	accountsPort
	issuedKeysPort
	keysPort
	tenantsPort
	assignmentsPort
	discoveredPort
	domainsPort
	domainChecksPort
	mailboxStorePort
	connectFlowsPort
	dnsConnectionsPort
	dnsWritesPort
	dnsRunsPort
	dnsJobsPort
	integrationsPort
	connectionsPort
	sendPoliciesPort
	sendDaysPort
	sendRunsPort
	sendRoomPort
	sendWatchPort
	enforcementEventsPort
	auditPort
	idempotencyPort
}

// with returns a store in which a double replaces the port that it implements.
func with(s Stores, double any) Stores {
	p := parts{s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s}
	switch double := double.(type) {
	case accountsPort:
		p.accountsPort = double
	case issuedKeysPort:
		p.issuedKeysPort = double
	case keysPort:
		p.keysPort = double
	case tenantsPort:
		p.tenantsPort = double
	case assignmentsPort:
		p.assignmentsPort = double
	case discoveredPort:
		p.discoveredPort = double
	case domainsPort:
		p.domainsPort = double
	case domainChecksPort:
		p.domainChecksPort = double
	case mailboxStorePort:
		p.mailboxStorePort = double
	case connectFlowsPort:
		p.connectFlowsPort = double
	case dnsConnectionsPort:
		p.dnsConnectionsPort = double
	case dnsWritesPort:
		p.dnsWritesPort = double
	case dnsRunsPort:
		p.dnsRunsPort = double
	case dnsJobsPort:
		p.dnsJobsPort = double
	case integrationsPort:
		p.integrationsPort = double
	case connectionsPort:
		p.connectionsPort = double
	case sendPoliciesPort:
		p.sendPoliciesPort = double
	case sendDaysPort:
		p.sendDaysPort = double
	case sendRunsPort:
		p.sendRunsPort = double
	case sendRoomPort:
		p.sendRoomPort = double
	case sendWatchPort:
		p.sendWatchPort = double
	case enforcementEventsPort:
		p.enforcementEventsPort = double
	case auditPort:
		p.auditPort = double
	case idempotencyPort:
		p.idempotencyPort = double
	default:
		panic(fmt.Sprintf("%T implements no port", double))
	}
	return p
}

// notices checks that a suite fails on a spoilt store. open returns an empty one.
func notices(t *testing.T, open func(testing.TB) Stores, suite []storeCheck, spoil func(Stores) Stores) {
	t.Helper()
	for _, c := range suite {
		if fails(t, func(t testing.TB) { c.run(t, spoil(open(t))) }) {
			return
		}
	}
	t.Fatal("the suite does not notice")
}

// oneCheck returns the check of a suite that has this name.
func oneCheck(suite []storeCheck, name string) []storeCheck {
	at := slices.IndexFunc(suite, func(c storeCheck) bool { return c.name == name })
	return suite[at : at+1]
}

// racing is a store whose method reads and then writes without a lock. Every caller of a crowd
// reads before the first one writes.
type racing struct {
	Stores
	reading *sync.WaitGroup
}

func race(s Stores) racing {
	r := racing{s, new(sync.WaitGroup)}
	r.reading.Add(crowd)
	return r
}

// meet waits until the whole crowd has read.
func (r racing) meet() {
	r.reading.Done()
	r.reading.Wait()
}

// reusedStore opens one store and returns a function that deletes all its rows for the next
// check. Migrating a database for each check would cost more than the checks do.
func reusedStore(t *testing.T) func(testing.TB) Stores {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenantry.db")
	s, err := bunstore.Open(t.Context(), "sqlite://"+file, bunstore.Options{Operator: Operator})
	must(t, "open", err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, "migrate", s.Migrate(t.Context()))
	tables, err := s.Tables(t.Context())
	must(t, "list tables", err)
	direct, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)") // it ignores foreign keys
	must(t, "open directly", err)
	t.Cleanup(func() { _ = direct.Close() })
	script := "BEGIN IMMEDIATE;"
	for _, table := range tables {
		if table.Name != "plans" && table.Name != "schema_release" { // filled by migrations
			script += "DELETE FROM " + table.Name + ";"
		}
	}
	return func(t testing.TB) Stores {
		_, err := direct.ExecContext(t.Context(), script+"COMMIT")
		must(t, "delete all rows", err)
		return s
	}
}
