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
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = apptest.Must

const (
	guid  = tenant.GUID("11111111-2222-4333-8444-555555555555")
	other = tenant.GUID("11111111-2222-4333-8444-666666666666")
	zone  = "example.test"
)

// fixture is the service over SQLite and the fake platform, with a ready tenant and two domains.
// One of the domains has two mailboxes.
type fixture struct {
	*limits.Service
	store *bunstore.Store
	fake  *fake.Platform
	owner access.AccountID
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{store: apptest.NewStore(t), fake: fake.New(), now: time.Now().UTC().Truncate(time.Microsecond)}
	fx.Service = &limits.Service{Tenants: fx.store, Domains: fx.store, Mailboxes: fx.store, Policies: fx.store, Runs: fx.store, Removals: fx.store, Platform: fx.fake,
		Now: func() time.Time { return fx.now }, Pause: time.Millisecond, Limit: apptest.HangTimeout}
	acc, err := fx.store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, fx.now)
	must(t, err)
	fx.owner = acc.ID
	fx.fake.Connect(guid, fake.Setup{})
	fx.attach(t, guid)
	fx.change(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	fx.addDomain(t, zone, "ada", "bob")
	fx.addDomain(t, "empty.test")
	return fx
}

func (fx *fixture) attach(t *testing.T, id tenant.GUID) {
	t.Helper()
	_, err := fx.store.Attach(t.Context(), fx.owner, tenant.Tenant{GUID: id, ConsentedAt: fx.now})
	must(t, err)
}

func (fx *fixture) change(t *testing.T, apply func(*tenant.Tenant)) {
	t.Helper()
	x, err := fx.store.Tenant(t.Context(), fx.owner, guid)
	must(t, err)
	apply(&x)
	must(t, fx.store.SaveTenant(t.Context(), fx.owner, x))
}

func (fx *fixture) addDomain(t *testing.T, name string, locals ...string) {
	t.Helper()
	d, err := fx.store.ReserveDomain(t.Context(), fx.owner, guid, name, 12, fx.now)
	must(t, err)
	d.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, d, nil))
	for _, local := range locals {
		made, err := fx.store.ReserveMailboxes(t.Context(), fx.owner, d.ID, []mailbox.Spec{{Address: local + "@" + name}}, 3, fx.now)
		must(t, err)
		made[0].Stage = mailbox.Ready
		must(t, fx.store.SaveMailbox(t.Context(), fx.owner, made[0]))
	}
}

func (fx *fixture) set(t *testing.T, scope *string, perDay int) limits.SetResult {
	t.Helper()
	out, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{DomainScope: scope, PerDay: perDay}, nil)
	must(t, err)
	return out
}

func (fx *fixture) refused(t *testing.T, what string, w limits.SetRequest, want fault.Code) {
	t.Helper()
	if _, err := fx.Set(t.Context(), fx.owner, guid, w, nil); !errors.Is(err, want) {
		t.Fatalf("%s: %v", what, err)
	}
}

func ptr(s string) *string { return &s }

func TestARepeatedSetChangesNothing(t *testing.T) {
	fx := newFixture(t)
	for _, scope := range []*string{nil, ptr("EXAMPLE.test.")} {
		first := fx.set(t, scope, 20)
		if first.PolicyResult != sendlimit.Created || first.Mailboxes != 2 || first.Policy.RuleID == "" || first.Policy.PerDay != 20 {
			t.Fatalf("first %+v", first)
		}
		fx.now = fx.now.Add(time.Hour)
		if again := fx.set(t, scope, 20); again.PolicyResult != sendlimit.Unchanged || again.Policy != first.Policy {
			t.Fatalf("again %+v", again)
		}
		changed := fx.set(t, scope, 7)
		if changed.PolicyResult != sendlimit.Updated || changed.Policy.ID != first.Policy.ID || !changed.Policy.UpdatedAt.Equal(fx.now) {
			t.Fatalf("changed %+v", changed)
		}
		got, err := fx.Get(t.Context(), fx.owner, guid, scope)
		must(t, err)
		if got != changed.Limit {
			t.Fatalf("got %+v, want %+v", got, changed.Limit)
		}
	}
	if n := fx.fake.Calls("EnsureRule"); n != 6 {
		t.Fatalf("%d calls", n)
	}
}

// Set adopts an existing rule of the platform, and creates a lost one again.
func TestSetAdoptsExistingRule(t *testing.T) {
	fx := newFixture(t)
	name := sendlimit.RuleName(zone)
	fx.fake.SetRule(guid, sendlimit.Rule{Name: name, Lists: []string{"ada@" + zone}})
	there := fx.fake.SnapshotOf(guid).Rules[0].ID
	first := fx.set(t, ptr(zone), 20)
	if first.PolicyResult != sendlimit.Created || first.Policy.RuleID != there || first.Policy.RuleName != name {
		t.Fatalf("adopted %+v", first)
	}
	fx.fake.DropRule(guid, name)
	if again := fx.set(t, ptr(zone), 20); again.PolicyResult != sendlimit.Created || again.Policy.RuleID == there {
		t.Fatalf("created again: %+v", again)
	}
}

func TestScopeWithoutMailboxesHasNoRule(t *testing.T) {
	fx := newFixture(t)
	out := fx.set(t, ptr("empty.test"), 20)
	if out.PolicyResult != sendlimit.Created || out.Mailboxes != 0 || out.Policy.RuleID != "" || out.Policy.RuleName != sendlimit.RuleName("empty.test") {
		t.Fatalf("got %+v", out)
	}
}

func TestSetRefusesInvalidScopesAndLimits(t *testing.T) {
	fx := newFixture(t)
	fx.attach(t, other)
	far, err := fx.store.ReserveDomain(t.Context(), fx.owner, other, "far.test", 12, fx.now)
	must(t, err)
	far.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, far, nil))
	for _, scope := range []string{"", ".", "unknown.test", "far.test", "nodots", "\x00"} {
		fx.refused(t, scope, limits.SetRequest{DomainScope: ptr(scope), PerDay: 99}, fault.DomainNotFound)
		if _, err := fx.Get(t.Context(), fx.owner, guid, ptr(scope)); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("%q: %v", scope, err)
		}
	}
	if _, err := fx.Set(t.Context(), "bob", guid, limits.SetRequest{PerDay: 99}, nil); !errors.Is(err, fault.TenantNotFound) {
		t.Fatal(err)
	}
	fx.change(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapPending, tenant.ConsentRevoked })
	for _, perDay := range []int{0, -1, 26} {
		fx.refused(t, "out of bounds", limits.SetRequest{PerDay: perDay}, fault.InvalidSendLimit)
	}
	fx.refused(t, "no consent", limits.SetRequest{PerDay: 5}, fault.AccessDenied)
	fx.change(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
	fx.refused(t, "no mail server", limits.SetRequest{PerDay: 5}, fault.ExchangeNotReady)
	if n := fx.fake.Calls("EnsureRule"); n != 0 {
		t.Fatalf("%d calls", n)
	}
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid); err != nil || len(scopes) != 0 {
		t.Fatalf("%v, %v", scopes, err)
	}
}

// A policy is in force only once the platform has its rule. Until then, the policy is stored as
// reserved, because the rule may exist.
func TestPolicyNeedsItsRule(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 5}, nil); outcome.KindOf(err) != outcome.Down {
		t.Fatal(err)
	}
	if _, err := fx.Get(t.Context(), fx.owner, guid, nil); !errors.Is(err, fault.PolicyNotFound) {
		t.Fatal(err)
	}
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid); err != nil || !slices.Equal(scopes, []string{""}) {
		t.Fatalf("%v, %v", scopes, err)
	}
	fx.set(t, nil, 5)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 9}, nil); outcome.KindOf(err) != outcome.Down {
		t.Fatal(err)
	}
	if got, err := fx.Get(t.Context(), fx.owner, guid, nil); err != nil || got.Policy.PerDay != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A call whose answer was lost is repeated and finds the rule that it created.
func TestSetFindsTheRuleAfterALostAnswer(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	out := fx.set(t, nil, 5)
	if out.Policy.RuleID == "" || fx.fake.Calls("EnsureRule") != 2 {
		t.Fatalf("%+v after %d calls", out, fx.fake.Calls("EnsureRule"))
	}
}

func TestLostConsentIsStored(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Revoke(guid, "consent")
	fx.refused(t, "revoked", limits.SetRequest{PerDay: 5}, fault.AccessDenied)
	x, err := fx.store.Tenant(t.Context(), fx.owner, guid)
	must(t, err)
	if x.Consent != tenant.ConsentRevoked {
		t.Fatalf("the consent is %s", x.Consent)
	}
}

// deletingPlatform runs drop while the platform creates the rule.
type deletingPlatform struct {
	ports.MailPlatform
	drop func()
}

type deletingTenant struct {
	ports.MailTenant
	drop func()
}

func (a deletingPlatform) For(id tenant.GUID) ports.MailTenant {
	return deletingTenant{a.MailPlatform.For(id), a.drop}
}

func (a deletingTenant) EnsureRule(ctx context.Context, scope string, all []string) (sendlimit.Rule, error) {
	a.drop()
	return a.MailTenant.EnsureRule(ctx, scope, all)
}

func TestTenantDeletedDuringSet(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = deletingPlatform{fx.fake, func() { must(t, fx.store.DeleteTenant(t.Context(), fx.owner, guid, nil)) }}
	fx.refused(t, "deleted", limits.SetRequest{PerDay: 5}, fault.TenantNotFound)
}

func TestDomainDroppedDuringSet(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = deletingPlatform{fx.fake, func() {
		missed := ports.Found{Began: fx.now.Add(time.Hour), Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true}}
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, guid, missed))
		missed.Began = missed.Began.Add(observation.ReplicaLag)
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, guid, missed))
	}}
	fx.refused(t, "dropped", limits.SetRequest{DomainScope: ptr(zone), PerDay: 5}, fault.DomainNotFound)
}
