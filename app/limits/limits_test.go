// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	guid  = tenant.GUID("11111111-2222-4333-8444-555555555555")
	other = tenant.GUID("11111111-2222-4333-8444-666666666666")
	zone  = "example.test"
)

// house is the use cases over SQLite and the fake platform, with a tenant that
// is ready and two domains, one of them with two mailboxes.
type house struct {
	*limits.Service
	store *bunstore.Store
	fake  *fake.Platform
	owner access.AccountID
	now   time.Time
}

// onlyAHang is a time limit that only a hang reaches, however slow the machine is.
const onlyAHang = 5 * time.Minute

func newHouse(t *testing.T) *house {
	t.Helper()
	store, err := bunstore.Open(t.Context(), bunstore.Memory, bunstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	must(t, store.Migrate(t.Context()))
	h := &house{store: store, fake: fake.New(), now: time.Now().UTC().Truncate(time.Microsecond)}
	h.Service = &limits.Service{Tenants: store, Domains: store, Mailboxes: store, Policies: store, Platform: h.fake,
		Now: func() time.Time { return h.now }, Pause: time.Millisecond, Limit: onlyAHang}
	acc, err := store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, h.now)
	must(t, err)
	h.owner = acc.ID
	h.fake.Connect(guid, fake.Setup{})
	h.attach(t, guid)
	h.change(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	h.addDomain(t, zone, "ada", "bob")
	h.addDomain(t, "empty.test")
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) attach(t *testing.T, id tenant.GUID) {
	t.Helper()
	_, err := h.store.Attach(t.Context(), h.owner, tenant.Tenant{GUID: id, ConsentedAt: h.now}, 10)
	must(t, err)
}

func (h *house) change(t *testing.T, apply func(*tenant.Tenant)) {
	t.Helper()
	x, err := h.store.Tenant(t.Context(), h.owner, guid)
	must(t, err)
	apply(&x)
	must(t, h.store.SaveTenant(t.Context(), h.owner, x))
}

func (h *house) addDomain(t *testing.T, name string, locals ...string) {
	t.Helper()
	d, err := h.store.ReserveDomain(t.Context(), h.owner, guid, name, 12, h.now)
	must(t, err)
	d.Added = true
	must(t, h.store.SaveDomain(t.Context(), h.owner, d))
	for _, local := range locals {
		made, err := h.store.ReserveMailboxes(t.Context(), h.owner, d.ID, []mailbox.Spec{{Address: local + "@" + name}}, 3, h.now)
		must(t, err)
		made[0].Stage = mailbox.Ready
		must(t, h.store.SaveMailbox(t.Context(), h.owner, made[0]))
	}
}

func (h *house) set(t *testing.T, scope *string, perDay int) limits.Outcome {
	t.Helper()
	out, err := h.Set(t.Context(), h.owner, guid, limits.Wanted{DomainScope: scope, PerDay: perDay})
	must(t, err)
	return out
}

func (h *house) refused(t *testing.T, what string, w limits.Wanted, want fault.Code) {
	t.Helper()
	if _, err := h.Set(t.Context(), h.owner, guid, w); !errors.Is(err, want) {
		t.Fatalf("%s: %v", what, err)
	}
}

func ptr(s string) *string { return &s }

func TestSet(t *testing.T) {
	h := newHouse(t)
	for _, scope := range []*string{nil, ptr("EXAMPLE.test.")} {
		first := h.set(t, scope, 20)
		if first.Became != sendlimit.Created || first.Mailboxes != 2 || first.Policy.RuleID == "" || first.Policy.PerDay != 20 {
			t.Fatalf("first %+v", first)
		}
		h.now = h.now.Add(time.Hour)
		if again := h.set(t, scope, 20); again.Became != sendlimit.Unchanged || again.Policy != first.Policy {
			t.Fatalf("again %+v", again)
		}
		changed := h.set(t, scope, 7)
		if changed.Became != sendlimit.Updated || changed.Policy.ID != first.Policy.ID || !changed.Policy.UpdatedAt.Equal(h.now) {
			t.Fatalf("changed %+v", changed)
		}
		got, err := h.Get(t.Context(), h.owner, guid, scope)
		must(t, err)
		if got != changed.Limit {
			t.Fatalf("got %+v, want %+v", got, changed.Limit)
		}
	}
	if n := h.fake.Calls("EnsureRule"); n != 6 {
		t.Fatalf("%d calls", n)
	}
}

// What the platform holds is adopted, and what it lost is made again.
func TestTheRuleIsFoundByItsName(t *testing.T) {
	h := newHouse(t)
	name := sendlimit.RuleName(zone)
	h.fake.SetRule(guid, sendlimit.Rule{Name: name, Lists: []string{"ada@" + zone}})
	there := h.fake.Holds(guid).Rules[0].ID
	first := h.set(t, ptr(zone), 20)
	if first.Became != sendlimit.Created || first.Policy.RuleID != there || first.Policy.RuleName != name {
		t.Fatalf("adopted %+v", first)
	}
	h.fake.DropRule(guid, name)
	if again := h.set(t, ptr(zone), 20); again.Became != sendlimit.Created || again.Policy.RuleID == there {
		t.Fatalf("made again %+v", again)
	}
}

func TestAScopeWithoutMailboxesHasNoRuleYet(t *testing.T) {
	h := newHouse(t)
	out := h.set(t, ptr("empty.test"), 20)
	if out.Became != sendlimit.Created || out.Mailboxes != 0 || out.Policy.RuleID != "" || out.Policy.RuleName != sendlimit.RuleName("empty.test") {
		t.Fatalf("got %+v", out)
	}
}

func TestRefusals(t *testing.T) {
	h := newHouse(t)
	h.attach(t, other)
	far, err := h.store.ReserveDomain(t.Context(), h.owner, other, "far.test", 12, h.now)
	must(t, err)
	far.Added = true
	must(t, h.store.SaveDomain(t.Context(), h.owner, far))
	for _, scope := range []string{"", ".", "unknown.test", "far.test", "nodots", "\x00"} {
		h.refused(t, scope, limits.Wanted{DomainScope: ptr(scope), PerDay: 99}, fault.DomainNotFound)
		if _, err := h.Get(t.Context(), h.owner, guid, ptr(scope)); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("%q: %v", scope, err)
		}
	}
	if _, err := h.Set(t.Context(), "bob", guid, limits.Wanted{PerDay: 99}); !errors.Is(err, fault.TenantNotFound) {
		t.Fatal(err)
	}
	h.change(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapPending, tenant.ConsentRevoked })
	for _, perDay := range []int{0, -1, 26} {
		h.refused(t, "out of bounds", limits.Wanted{PerDay: perDay}, fault.InvalidSendLimit)
	}
	h.refused(t, "no consent", limits.Wanted{PerDay: 5}, fault.AccessDenied)
	h.change(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
	h.refused(t, "no mail server", limits.Wanted{PerDay: 5}, fault.ExchangeNotReady)
	if n := h.fake.Calls("EnsureRule"); n != 0 {
		t.Fatalf("%d calls", n)
	}
	if scopes, err := h.store.RuledScopes(t.Context(), h.owner, guid); err != nil || len(scopes) != 0 {
		t.Fatalf("%v, %v", scopes, err)
	}
}

// A policy is in force only when the platform has its rule; until then its
// scope is remembered as one that may have a rule.
func TestNoProtectionIsClaimedThatIsNotThere(t *testing.T) {
	h := newHouse(t)
	h.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := h.Set(t.Context(), h.owner, guid, limits.Wanted{PerDay: 5}); outcome.Of(err) != outcome.Down {
		t.Fatal(err)
	}
	if _, err := h.Get(t.Context(), h.owner, guid, nil); !errors.Is(err, fault.PolicyNotFound) {
		t.Fatal(err)
	}
	if scopes, err := h.store.RuledScopes(t.Context(), h.owner, guid); err != nil || !slices.Equal(scopes, []string{""}) {
		t.Fatalf("%v, %v", scopes, err)
	}
	h.set(t, nil, 5)
	h.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := h.Set(t.Context(), h.owner, guid, limits.Wanted{PerDay: 9}); outcome.Of(err) != outcome.Down {
		t.Fatal(err)
	}
	if got, err := h.Get(t.Context(), h.owner, guid, nil); err != nil || got.Policy.PerDay != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A call whose answer was lost is made again, and finds what it made.
func TestALostAnswer(t *testing.T) {
	h := newHouse(t)
	h.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	out := h.set(t, nil, 5)
	if out.Policy.RuleID == "" || h.fake.Calls("EnsureRule") != 2 {
		t.Fatalf("%+v after %d calls", out, h.fake.Calls("EnsureRule"))
	}
}

func TestALostConsentIsNoticed(t *testing.T) {
	h := newHouse(t)
	h.fake.Revoke(guid, "consent")
	h.refused(t, "revoked", limits.Wanted{PerDay: 5}, fault.AccessDenied)
	x, err := h.store.Tenant(t.Context(), h.owner, guid)
	must(t, err)
	if x.Consent != tenant.ConsentRevoked {
		t.Fatalf("the consent is %s", x.Consent)
	}
}

// away loses the tenant while the platform makes the rule.
type away struct {
	ports.MailPlatform
	drop func()
}

type awayTenant struct {
	ports.MailTenant
	drop func()
}

func (a away) For(id tenant.GUID) ports.MailTenant { return awayTenant{a.MailPlatform.For(id), a.drop} }

func (a awayTenant) EnsureRule(ctx context.Context, scope string, all []string) (sendlimit.Rule, error) {
	a.drop()
	return a.MailTenant.EnsureRule(ctx, scope, all)
}

func TestATenantDeletedMeanwhile(t *testing.T) {
	h := newHouse(t)
	h.Platform = away{h.fake, func() { must(t, h.store.DeleteTenant(t.Context(), h.owner, guid)) }}
	h.refused(t, "deleted", limits.Wanted{PerDay: 5}, fault.TenantNotFound)
}

func TestADomainDroppedMeanwhile(t *testing.T) {
	h := newHouse(t)
	h.Platform = away{h.fake, func() {
		must(t, h.store.SaveDiscovery(t.Context(), h.owner, guid, ports.Found{Began: h.now.Add(time.Hour), Domains: []domain.Domain{}}))
	}}
	h.refused(t, "dropped", limits.Wanted{DomainScope: ptr(zone), PerDay: 5}, fault.DomainNotFound)
}
