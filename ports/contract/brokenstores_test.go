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
	sharedAddresses  struct{ Stores }
	planForever      struct{ Stores }
	immortalKeys     struct{ Stores }
	looseRotation    struct{ Stores }
	membersOfAnybody struct{ Stores }
	keepsSlots       struct{ Stores }
	halfClosed       struct{ Stores }
	keepsLog         struct{ Stores }
	reopened         struct{ Stores }
	revokedAnew      struct{ Stores }
	nameless         struct{ Stores }
	silentActs       struct{ Stores }
	namelessOperator struct{ Stores }
	oldActsFirst     struct{ Stores }
	twiceTold        struct{ Stores }
	noSecrets        struct{ Stores } // tells foreign from unknown
	oldestFirst      struct{ Stores }
	endlessSlots     struct{ Stores }
	slotPerConsent   struct{ Stores }
	staleConsent     struct{ Stores }
	forgetful        struct{ Stores }
	deafToContext    struct{ Stores }
	countsFirst      struct{ racing }
	listsUnfinished  struct{ Stores }
	twelveAndMore    struct{ Stores }
	alwaysFresh      struct{ Stores }
	dropsAdded       struct{ Stores }
	halfPairs        struct{ Stores }
	unordered        struct{ Stores }
	limitOverwritten struct{ Stores }
	nilIsEmpty       struct{ Stores }
	keepsVanished    struct{ Stores }
	neverLater       struct{ Stores }
	flowForever      struct{ Stores }
	flowSavedLate    struct{ Stores }
	dropsAllFlows    struct{ Stores }
)

func (b sharedAddresses) CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error) {
	a, err := b.Stores.CreateAccount(ctx, email, plan, slots, now)
	if err != nil && plan == "complete" {
		return b.Stores.CreateAccount(ctx, fmt.Sprintf("%p%s", &a, email), plan, slots, now)
	}
	return a, err
}

func (b planForever) SetActive(ctx context.Context, id access.AccountID, _ bool) (access.Account, error) {
	return b.Account(ctx, id)
}

// keepsSlots keeps slots of the account's own under a new plan.
func (b keepsSlots) ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	a, err := b.FindAccount(ctx, string(id))
	if err != nil {
		return a, err
	}
	return b.Stores.ChangePlan(ctx, id, plan, cmp.Or(slots, a.OwnSlots))
}

// halfClosed closes an account but for one tenant.
func (b halfClosed) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, _ ...string) (ports.Closing, error) {
	held, _ := b.Tenants(ctx, id)
	done, err := b.Stores.CloseAccount(ctx, id, now)
	if err == nil && len(held) > 0 {
		a, _ := b.CreateAccount(ctx, "hidden@example.test", "complete", 0, now)
		_, _ = b.Attach(ctx, a.ID, held[0], 100)
	}
	return done, err
}

func (b keepsLog) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, left ...string) (ports.Closing, error) {
	log, _ := b.Events(ctx, id, ports.EventQuery{Limit: 9})
	done, err := b.Stores.CloseAccount(ctx, id, now, left...)
	_ = b.RecordEvents(ctx, id, log.Events)
	return done, err
}

func (b reopened) SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error) {
	a, err := b.Stores.SetActive(ctx, id, active)
	if errors.Is(err, fault.AccountClosed) {
		return a, nil
	}
	return a, err
}

func (b revokedAnew) RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error) {
	k, err := b.Stores.RevokeKey(ctx, id, now)
	k.RevokedAt = now
	return k, err
}

func (b nameless) ReplaceKey(ctx context.Context, id string, fresh access.Key) (access.Key, error) {
	k, err := b.Stores.ReplaceKey(ctx, id, fresh)
	k.Name = fresh.Name
	return k, err
}

// silentActs does not remember suspensions.
func (b silentActs) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.Stores.AuditEvents(ctx, q)
	return slices.DeleteFunc(all, func(e audit.Event) bool { return e.Action == audit.SuspendAccount }), err
}

func (b namelessOperator) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.Stores.AuditEvents(ctx, q)
	for i := range all {
		all[i].Operator = "unknown"
	}
	return all, err
}

func (b oldActsFirst) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	all, err := b.Stores.AuditEvents(ctx, q)
	slices.Reverse(all)
	return all, err
}

// twiceTold records what it refuses.
func (b twiceTold) Withdraw(ctx context.Context, id tenant.GUID, _ ...string) (access.AccountID, error) {
	owner, err := b.Stores.Withdraw(ctx, id)
	if err != nil {
		_ = b.RecordAct(ctx, audit.WithdrawTenant, nil)
	}
	return owner, err
}

func (b immortalKeys) RotateKey(ctx context.Context, _ access.AccountID, _ string, fresh access.Key) error {
	return b.AddKey(ctx, fresh)
}

func (b looseRotation) RotateKey(ctx context.Context, owner access.AccountID, id string, fresh access.Key) error {
	_ = b.Stores.RotateKey(ctx, owner, id, fresh)
	return nil
}

func (b membersOfAnybody) Member(ctx context.Context, _ access.AccountID, email string) (bool, error) {
	_, err := b.FindAccount(ctx, email)
	return err == nil, nil
}

func (b noSecrets) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	t, err := b.Stores.Tenant(ctx, owner, id)
	if _, held := b.Stores.Attach(ctx, owner, tenant.Tenant{GUID: id}, 0); err != nil && held != nil {
		return t, fault.AccessDenied.With("not yours")
	}
	return t, err
}

func (b oldestFirst) Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	list, err := b.Stores.Tenants(ctx, owner)
	slices.Reverse(list)
	return list, err
}

func (b endlessSlots) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, _ int) (tenant.Tenant, error) {
	return b.Stores.Attach(ctx, owner, t, 1000)
}

func (b slotPerConsent) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	if n, err := b.TenantCount(ctx, owner); err == nil && n >= slots {
		return tenant.Tenant{}, fault.TenantLimitReached.With("full")
	}
	return b.Stores.Attach(ctx, owner, t, slots)
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
	return b.Stores.SaveTenant(ctx, owner, t)
}

func (b forgetful) Withdrawn(context.Context, access.AccountID, tenant.GUID) (bool, error) {
	return false, nil
}

func (b deafToContext) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	return b.Stores.Attach(context.WithoutCancel(ctx), owner, t, slots)
}

func (b listsUnfinished) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	d, err := b.Stores.ReserveDomain(ctx, owner, id, name, most, now)
	if err == nil && !d.Added {
		d.Added = true
		err = b.SaveDomain(ctx, owner, d)
		d.Added = false
	}
	return d, err
}

func (b twelveAndMore) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	return b.Stores.ReserveDomain(ctx, owner, id, name, most+1, now)
}

func (b alwaysFresh) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	d, err := b.Stores.ReserveDomain(ctx, owner, id, name, most, now)
	d.Fresh = err == nil
	return d, err
}

func (b dropsAdded) ReleaseDomain(ctx context.Context, owner access.AccountID, id string) error {
	if d, err := b.DomainByID(ctx, owner, id); err == nil {
		d.Added = false
		_ = b.SaveDomain(ctx, owner, d)
	}
	return b.Stores.ReleaseDomain(ctx, owner, id)
}

func (b halfPairs) ReserveMailboxes(ctx context.Context, owner access.AccountID, id string, specs []mailbox.Spec, most int, now time.Time) ([]mailbox.Mailbox, error) {
	var all []mailbox.Mailbox
	for _, one := range specs {
		m, err := b.Stores.ReserveMailboxes(ctx, owner, id, []mailbox.Spec{one}, most, now)
		if err != nil {
			return nil, err
		}
		all = append(all, m...)
	}
	return all, nil
}

func (b unordered) ReserveMailboxes(ctx context.Context, owner access.AccountID, id string, specs []mailbox.Spec, most int, now time.Time) ([]mailbox.Mailbox, error) {
	all, err := b.Stores.ReserveMailboxes(ctx, owner, id, specs, most, now)
	slices.SortFunc(all, func(x, y mailbox.Mailbox) int { return len(x.ID+x.Address) - len(y.ID+y.Address) })
	slices.Reverse(all)
	return all, err
}

func (b limitOverwritten) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	if err := b.Stores.SaveMailbox(ctx, owner, m); err != nil {
		return err
	}
	return b.SetSendLimit(ctx, owner, m.ID, m.DailySendLimit, now)
}

func (b nilIsEmpty) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Domains, f.Mailboxes = append([]domain.Domain{}, f.Domains...), append([]mailbox.Platform{}, f.Mailboxes...)
	return b.Stores.SaveDiscovery(ctx, owner, id, f)
}

func (b keepsVanished) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = f.Began.Add(-1000 * time.Hour)
	return b.Stores.SaveDiscovery(ctx, owner, id, f)
}

func (b neverLater) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = f.Began.Add(1000 * time.Hour)
	return b.Stores.SaveDiscovery(ctx, owner, id, f)
}

func (b flowForever) TakeFlow(ctx context.Context, hash [32]byte, from, to ports.ConnectStep, _ time.Time) (ports.ConnectFlow, error) {
	return b.Stores.TakeFlow(ctx, hash, from, to, time.Time{})
}

func (b flowSavedLate) SaveFlow(ctx context.Context, f ports.ConnectFlow) error {
	_ = b.Stores.SaveFlow(ctx, f)
	return nil
}

func (b dropsAllFlows) DropFlows(ctx context.Context, before time.Time) error {
	return b.Stores.DropFlows(ctx, before.Add(1000*time.Hour))
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
		"an address has two accounts":       {accountChecks, func(s Stores) Stores { return sharedAddresses{s} }},
		"a plan cannot be switched off":     {keyChecks, func(s Stores) Stores { return planForever{s} }},
		"a plan keeps slots of before":      {accountChecks, func(s Stores) Stores { return keepsSlots{s} }},
		"a tenant of a closed account":      {closingChecks, func(s Stores) Stores { return halfClosed{s} }},
		"a closed account keeps its log":    {closingChecks, func(s Stores) Stores { return keepsLog{s} }},
		"a closed account is resumed":       {closingChecks, func(s Stores) Stores { return reopened{s} }},
		"revoking again moves the time":     {issuedKeyChecks, func(s Stores) Stores { return revokedAnew{s} }},
		"a replaced key loses its name":     {issuedKeyChecks, func(s Stores) Stores { return nameless{s} }},
		"an act goes unrecorded":            {actChecks(), func(s Stores) Stores { return silentActs{s} }},
		"nobody acted":                      {auditChecks, func(s Stores) Stores { return namelessOperator{s} }},
		"acts oldest first":                 {auditChecks, func(s Stores) Stores { return oldActsFirst{s} }},
		"a refusal is recorded":             {auditChecks, func(s Stores) Stores { return twiceTold{s} }},
		"rotated keys stay alive":           {keyChecks, func(s Stores) Stores { return immortalKeys{s} }},
		"every rotation claims to win":      {keyChecks, func(s Stores) Stores { return looseRotation{s} }},
		"members of any account":            {keyChecks, func(s Stores) Stores { return membersOfAnybody{s} }},
		"foreign differs from unknown":      {tenants, func(s Stores) Stores { return noSecrets{s} }},
		"tenants oldest first":              {tenants, func(s Stores) Stores { return oldestFirst{s} }},
		"no ceiling":                        {tenants, func(s Stores) Stores { return endlessSlots{s} }},
		"a renewal takes a slot":            {tenants, func(s Stores) Stores { return slotPerConsent{s} }},
		"slots are counted before the lock": {oneCheck(attachChecks, "a crowd takes exactly the slots there are"), func(s Stores) Stores { return countsFirst{race(s)} }},
		"an old save revokes a new consent": {tenants, func(s Stores) Stores { return staleConsent{s} }},
		"an ended context is ignored":       {tenants, func(s Stores) Stores { return deafToContext{s} }},
		"withdrawals are forgotten":         {assignmentChecks, func(s Stores) Stores { return forgetful{s} }},
		"unfinished domains are listed":     {storedDomainChecks, func(s Stores) Stores { return listsUnfinished{s} }},
		"one domain too many":               {storedDomainChecks, func(s Stores) Stores { return twelveAndMore{s} }},
		"an old place counts as fresh":      {storedDomainChecks, func(s Stores) Stores { return alwaysFresh{s} }},
		"an added domain is given back":     {storedDomainChecks, func(s Stores) Stores { return dropsAdded{s} }},
		"half of a refused pair stays":      {mailboxes, func(s Stores) Stores { return halfPairs{s} }},
		"places out of order":               {mailboxes, func(s Stores) Stores { return unordered{s} }},
		"saving overwrites the limit":       {mailboxes, func(s Stores) Stores { return limitOverwritten{s} }},
		"no list is an empty list":          {found, func(s Stores) Stores { return nilIsEmpty{s} }},
		"what vanished stays":               {found, func(s Stores) Stores { return keepsVanished{s} }},
		"what came later goes":              {found, func(s Stores) Stores { return neverLater{s} }},
		"flows do not expire":               {flowChecks, func(s Stores) Stores { return flowForever{s} }},
		"a flow is saved after it moved on": {flowChecks, func(s Stores) Stores { return flowSavedLate{s} }},
		"live flows are dropped":            {flowChecks, func(s Stores) Stores { return dropsAllFlows{s} }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
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
