// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of a store port.
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
	noSecrets        struct{ tenantsPort } // distinguishes foreign from unknown tenants
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

// keepsSlots keeps the account's own slots when its plan changes.
func (b keepsSlots) ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	a, err := b.FindAccount(ctx, string(id))
	if err != nil {
		return a, err
	}
	return b.accountsPort.ChangePlan(ctx, id, plan, cmp.Or(slots, a.OwnSlots))
}

// halfClosed closes an account and attaches one of its tenants to a hidden account.
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

// silentActs omits suspensions from the audit log.
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

// twiceTold records a refused action in the audit log.
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

// countsFirst counts the tenants outside the transaction that takes the slot.
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
		err = b.SaveDomain(ctx, owner, d, nil)
		d.Added = false
	}
	return d, err
}

func (b twelveAndMore) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	return b.domainsPort.ReserveDomain(ctx, owner, id, name, most+1, now)
}

func (b alwaysFresh) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	d, err := b.domainsPort.ReserveDomain(ctx, owner, id, name, most, now)
	d.JustReserved = err == nil
	return d, err
}

func (b dropsAdded) ReleaseDomain(ctx context.Context, owner access.AccountID, id string) error {
	if d, err := b.DomainByID(ctx, owner, id); err == nil {
		d.Added = false
		_ = b.SaveDomain(ctx, owner, d, nil)
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

// TestStoreSuitesDetectBrokenPromises runs each suite on stores that break one promise each.
func TestStoreSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	tenants, mailboxes := append(tenantChecks, attachChecks...), append(storedMailboxChecks, reserveMailboxChecks...)
	found := append(discoveredDomainChecks, discoveredMailboxChecks...)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"an address has two accounts":         {accountChecks, func(s Stores) Stores { return withPort(s, sharedAddresses{s}) }},
		"a plan cannot be switched off":       {keyChecks, func(s Stores) Stores { return withPort(s, planForever{s, s}) }},
		"a plan keeps slots of before":        {accountChecks, func(s Stores) Stores { return withPort(s, keepsSlots{s}) }},
		"a tenant of a closed account":        {closingChecks, func(s Stores) Stores { return withPort(s, halfClosed{s, s}) }},
		"a closed account keeps its log":      {closingChecks, func(s Stores) Stores { return withPort(s, keepsLog{s, s}) }},
		"a closed account is resumed":         {closingChecks, func(s Stores) Stores { return withPort(s, reopened{s}) }},
		"revoking again moves the time":       {issuedKeyChecks, func(s Stores) Stores { return withPort(s, revokedAnew{s}) }},
		"a replaced key loses its name":       {issuedKeyChecks, func(s Stores) Stores { return withPort(s, nameless{s}) }},
		"an action is not recorded":           {operatorActionChecks(), func(s Stores) Stores { return withPort(s, silentActs{s}) }},
		"the operator is not recorded":        {auditChecks, func(s Stores) Stores { return withPort(s, namelessOperator{s}) }},
		"events oldest first":                 {auditChecks, func(s Stores) Stores { return withPort(s, oldActsFirst{s}) }},
		"a refusal is recorded":               {auditChecks, func(s Stores) Stores { return withPort(s, twiceTold{s, s}) }},
		"rotated keys stay alive":             {keyChecks, func(s Stores) Stores { return withPort(s, immortalKeys{s, s}) }},
		"every rotation claims to win":        {keyChecks, func(s Stores) Stores { return withPort(s, looseRotation{s}) }},
		"members of any account are accepted": {keyChecks, func(s Stores) Stores { return withPort(s, membersOfAnybody{s, s}) }},
		"foreign differs from unknown":        {tenants, func(s Stores) Stores { return withPort(s, noSecrets{s}) }},
		"tenants oldest first":                {tenants, func(s Stores) Stores { return withPort(s, oldestFirst{s}) }},
		"the limit is not enforced":           {tenants, func(s Stores) Stores { return withPort(s, endlessSlots{s}) }},
		"a renewal takes a slot":              {tenants, func(s Stores) Stores { return withPort(s, slotPerConsent{s}) }},
		"slots are counted before the lock":   {oneCheck(attachChecks, "concurrent attachments take exactly the available slots"), func(s Stores) Stores { return countsFirst{race(s)} }},
		"an old save revokes a new consent":   {tenants, func(s Stores) Stores { return withPort(s, staleConsent{s}) }},
		"an ended context is ignored":         {tenants, func(s Stores) Stores { return withPort(s, deafToContext{s}) }},
		"withdrawals are forgotten":           {assignmentChecks, func(s Stores) Stores { return withPort(s, forgetful{s}) }},
		"unfinished domains are listed":       {storedDomainChecks, func(s Stores) Stores { return withPort(s, listsUnfinished{s}) }},
		"one domain too many":                 {storedDomainChecks, func(s Stores) Stores { return withPort(s, twelveAndMore{s}) }},
		"an old reservation counts as new":    {storedDomainChecks, func(s Stores) Stores { return withPort(s, alwaysFresh{s}) }},
		"an added domain is released":         {storedDomainChecks, func(s Stores) Stores { return withPort(s, dropsAdded{s}) }},
		"half of a refused pair is stored":    {mailboxes, func(s Stores) Stores { return withPort(s, halfPairs{s}) }},
		"reservations out of order":           {mailboxes, func(s Stores) Stores { return withPort(s, unordered{s}) }},
		"saving overwrites the limit":         {mailboxes, func(s Stores) Stores { return withPort(s, limitOverwritten{s}) }},
		"a missing list counts as empty":      {found, func(s Stores) Stores { return withPort(s, nilIsEmpty{s}) }},
		"missing objects stay":                {found, func(s Stores) Stores { return withPort(s, keepsVanished{s}) }},
		"later objects are removed":           {found, func(s Stores) Stores { return withPort(s, neverLater{s}) }},
		"flows do not expire":                 {flowChecks, func(s Stores) Stores { return withPort(s, flowForever{s}) }},
		"a flow is saved after it moved on":   {flowChecks, func(s Stores) Stores { return withPort(s, flowSavedLate{s}) }},
		"live flows are dropped":              {flowChecks, func(s Stores) Stores { return withPort(s, dropsAllFlows{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
