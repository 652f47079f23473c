// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
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

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var must = apptest.Must

const (
	guid      = tenant.GUID("11111111-2222-4333-8444-555555555555")
	otherGUID = tenant.GUID("11111111-2222-4333-8444-666666666666")
	zone      = "example.test"
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
	fx.Service = &limits.Service{Tenants: fx.store, Domains: fx.store, Mailboxes: fx.store, Policies: fx.store, Claims: fx.store, Removals: fx.store, Platform: fx.fake,
		Now: func() time.Time { return fx.now }, Pause: time.Millisecond, Timeout: apptest.HangTimeout}
	account, err := fx.store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, fx.now)
	must(t, err)
	fx.owner = account.ID
	fx.fake.Connect(guid, fake.Setup{})
	fx.attach(t, guid)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	fx.addDomain(t, zone, "ada", "bob")
	fx.addDomain(t, "empty.test")
	return fx
}

func (fx *fixture) attach(t *testing.T, id tenant.GUID) {
	t.Helper()
	_, err := fx.store.Attach(t.Context(), fx.owner, tenant.Tenant{GUID: id, ConsentedAt: fx.now})
	must(t, err)
}

func (fx *fixture) changeTenant(t *testing.T, change func(*tenant.Tenant)) {
	t.Helper()
	apptest.ChangeTenant(t, fx.store, fx.owner, guid, change)
}

func (fx *fixture) addDomain(t *testing.T, name string, localParts ...string) {
	t.Helper()
	d, err := fx.store.ReserveDomain(t.Context(), fx.owner, guid, name, 12, fx.now)
	must(t, err)
	d.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, d, nil))
	for _, localPart := range localParts {
		rows, err := fx.store.ReserveMailboxes(t.Context(), fx.owner, d.ID, []mailbox.Spec{{Address: localPart + "@" + name}}, 3, fx.now)
		must(t, err)
		rows[0].Stage = mailbox.Ready
		must(t, fx.store.SaveMailbox(t.Context(), fx.owner, rows[0]))
	}
}

// set sets the limit of a domain, or of the whole tenant if scope is nil.
func (fx *fixture) set(t *testing.T, scope *string, perDay int) limits.SetResult {
	t.Helper()
	result, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{DomainScope: scope, PerDay: perDay}, nil)
	must(t, err)
	return result
}

func (fx *fixture) requireRefusal(t *testing.T, situation string, request limits.SetRequest, want fault.Code) {
	t.Helper()
	if _, err := fx.Set(t.Context(), fx.owner, guid, request, nil); !errors.Is(err, want) {
		t.Fatalf("%s: got %v, want %s", situation, err, want.Name)
	}
}

func pointerTo(scope string) *string { return &scope }

func TestARepeatedSetChangesNothing(t *testing.T) {
	fx := newFixture(t)
	for _, scope := range []*string{nil, pointerTo("EXAMPLE.test.")} {
		created := fx.set(t, scope, 20)
		if created.PolicyResult != sendlimit.Created || created.Mailboxes != 2 || created.Policy.RuleID == "" || created.Policy.PerDay != 20 {
			t.Fatalf("the first Set returns %+v, want a new limit of 20 for 2 mailboxes, with a rule", created)
		}
		fx.now = fx.now.Add(time.Hour)
		if repeated := fx.set(t, scope, 20); repeated.PolicyResult != sendlimit.Unchanged || repeated.Policy != created.Policy {
			t.Fatalf("the repeated Set returns %+v, want the policy %+v unchanged", repeated, created.Policy)
		}
		changed := fx.set(t, scope, 7)
		if changed.PolicyResult != sendlimit.Updated || changed.Policy.ID != created.Policy.ID || !changed.Policy.UpdatedAt.Equal(fx.now) {
			t.Fatalf("the Set with a different limit returns %+v, want the policy updated now", changed)
		}
		got, err := fx.Get(t.Context(), fx.owner, guid, scope)
		must(t, err)
		if got != changed.Limit {
			t.Fatalf("got %+v, want %+v", got, changed.Limit)
		}
	}
	if n := fx.fake.Calls("EnsureRule"); n != 6 {
		t.Fatalf("EnsureRule was called %d times, want 6: 3 for each scope", n)
	}
}

// TestSetAdoptsExistingRule checks that Set adopts an existing rule of the platform. If the rule is
// deleted, Set creates a new rule.
func TestSetAdoptsExistingRule(t *testing.T) {
	fx := newFixture(t)
	name := sendlimit.RuleName(zone)
	fx.fake.SetRule(guid, sendlimit.Rule{Name: name, Lists: []string{"ada@" + zone}})
	existingID := fx.fake.SnapshotOf(guid).Rules[0].ID
	adopted := fx.set(t, pointerTo(zone), 20)
	if adopted.PolicyResult != sendlimit.Created || adopted.Policy.RuleID != existingID || adopted.Policy.RuleName != name {
		t.Fatalf("got %+v, want a new policy with the rule %s", adopted, existingID)
	}
	fx.fake.DropRule(guid, name)
	if recreated := fx.set(t, pointerTo(zone), 20); recreated.PolicyResult != sendlimit.Created || recreated.Policy.RuleID == existingID {
		t.Fatalf("after the deletion of the rule: got %+v, want a new rule", recreated)
	}
}

func TestScopeWithoutMailboxesHasNoRule(t *testing.T) {
	fx := newFixture(t)
	result := fx.set(t, pointerTo("empty.test"), 20)
	if result.PolicyResult != sendlimit.Created || result.Mailboxes != 0 || result.Policy.RuleID != "" || result.Policy.RuleName != sendlimit.RuleName("empty.test") {
		t.Fatalf("got %+v, want a new policy without a rule", result)
	}
}

func TestSetRefusesInvalidScopesAndLimits(t *testing.T) {
	fx := newFixture(t)
	fx.attach(t, otherGUID)
	domainOfOtherTenant, err := fx.store.ReserveDomain(t.Context(), fx.owner, otherGUID, "far.test", 12, fx.now)
	must(t, err)
	domainOfOtherTenant.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, domainOfOtherTenant, nil))
	for _, scope := range []string{"", ".", "unknown.test", "far.test", "nodots", "\x00"} {
		fx.requireRefusal(t, scope, limits.SetRequest{DomainScope: pointerTo(scope), PerDay: 99}, fault.DomainNotFound)
		if _, err := fx.Get(t.Context(), fx.owner, guid, pointerTo(scope)); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("Get with the scope %q: got %v, want policy_not_found", scope, err)
		}
	}
	if _, err := fx.Set(t.Context(), "bob", guid, limits.SetRequest{PerDay: 99}, nil); !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("for a different account: got %v, want tenant_not_found", err)
	}
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap, x.Consent = tenant.BootstrapPending, tenant.ConsentRevoked })
	for _, perDay := range []int{0, -1, 26} {
		fx.requireRefusal(t, "a limit out of bounds", limits.SetRequest{PerDay: perDay}, fault.InvalidSendLimit)
	}
	fx.requireRefusal(t, "no consent", limits.SetRequest{PerDay: 5}, fault.AccessDenied)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
	fx.requireRefusal(t, "the mail server is not ready", limits.SetRequest{PerDay: 5}, fault.ExchangeNotReady)
	if n := fx.fake.Calls("EnsureRule"); n != 0 {
		t.Fatalf("EnsureRule was called %d times, want none", n)
	}
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid); err != nil || len(scopes) != 0 {
		t.Fatalf("after the refused requests, policies are reserved for the scopes %q, %v, want none", scopes, err)
	}
}

// TestPolicyNeedsItsRule checks that a policy is not in force if its rule could not be created. The
// policy stays reserved, because the rule may exist.
func TestPolicyNeedsItsRule(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 5}, nil); outcome.KindOf(err) != outcome.Down {
		t.Fatalf("Set while the platform is down: got %v, want the outcome Down", err)
	}
	if _, err := fx.Get(t.Context(), fx.owner, guid, nil); !errors.Is(err, fault.PolicyNotFound) {
		t.Fatalf("Get after a failed Set: got %v, want policy_not_found", err)
	}
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid); err != nil || !slices.Equal(scopes, []string{""}) {
		t.Fatalf("the scopes with a reserved policy are %q, %v, want the whole tenant", scopes, err)
	}
	fx.set(t, nil, 5)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 9}, nil); outcome.KindOf(err) != outcome.Down {
		t.Fatalf("a second Set while the platform is down: got %v, want the outcome Down", err)
	}
	if got, err := fx.Get(t.Context(), fx.owner, guid, nil); err != nil || got.Policy.PerDay != 5 {
		t.Fatalf("after a failed Set the limit is %+v, %v, want 5 a day", got, err)
	}
}

// TestSetFindsTheRuleAfterALostAnswer checks that Set repeats a call whose answer was lost, and
// finds the rule that the first call created.
func TestSetFindsTheRuleAfterALostAnswer(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	result := fx.set(t, nil, 5)
	if result.Policy.RuleID == "" || fx.fake.Calls("EnsureRule") != 2 {
		t.Fatalf("got %+v after %d calls, want a rule after 2 calls", result, fx.fake.Calls("EnsureRule"))
	}
}

func TestLostConsentIsStored(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Revoke(guid, "consent")
	fx.requireRefusal(t, "the consent was revoked", limits.SetRequest{PerDay: 5}, fault.AccessDenied)
	stored, err := fx.store.Tenant(t.Context(), fx.owner, guid)
	must(t, err)
	if stored.Consent != tenant.ConsentRevoked {
		t.Fatalf("the stored consent is %s, want revoked", stored.Consent)
	}
}

// overtakenPlatform calls overtake, a concurrent request or sync, before each EnsureRule.
type overtakenPlatform struct {
	ports.MailPlatform
	overtake func()
}

type overtakenTenant struct {
	ports.MailTenant
	overtake func()
}

func (p overtakenPlatform) For(id tenant.GUID) ports.MailTenant {
	return overtakenTenant{p.MailPlatform.For(id), p.overtake}
}

func (p overtakenTenant) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	p.overtake()
	return p.MailTenant.EnsureRule(ctx, scope, mailboxes)
}

func TestSetForATenantDeletedMeanwhileIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = overtakenPlatform{fx.fake, func() { must(t, fx.store.DeleteTenant(t.Context(), fx.owner, guid, nil)) }}
	fx.requireRefusal(t, "the tenant was deleted", limits.SetRequest{PerDay: 5}, fault.TenantNotFound)
}

func TestSetForADomainDeletedMeanwhileIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = overtakenPlatform{fx.fake, func() {
		missed := ports.DiscoveryResult{Began: fx.now.Add(time.Hour), Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true}}
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, guid, missed))
		missed.Began = missed.Began.Add(observation.ReplicaLag)
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, guid, missed))
	}}
	fx.requireRefusal(t, "the domain was deleted", limits.SetRequest{DomainScope: pointerTo(zone), PerDay: 5}, fault.DomainNotFound)
}

func TestSetForALimitRemovedMeanwhileCanBeRepeated(t *testing.T) {
	for _, scope := range []*string{nil, pointerTo(zone)} {
		fx := newFixture(t)
		fx.set(t, scope, 20)
		fx.Platform = overtakenPlatform{fx.fake, func() {
			_, err := fx.End(t.Context(), fx.owner, guid, scope, nil)
			must(t, err)
		}}
		fx.requireRefusal(t, "the limit was removed", limits.SetRequest{DomainScope: scope, PerDay: 5}, fault.ServiceUnavailable)
		fx.Platform = fx.fake
		if result := fx.set(t, scope, 5); result.PolicyResult != sendlimit.Created || result.Policy.RuleID == "" {
			t.Fatalf("the repeated Set returns %+v, want a new policy with a rule", result)
		}
	}
}

// overtakenPolicies calls overtake, a concurrent request, before each ChangePolicy.
type overtakenPolicies struct {
	ports.SendPolicies

	overtake func()
}

func (o overtakenPolicies) ChangePolicy(ctx context.Context, owner access.AccountID, policyID string, change func(sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error)) error {
	o.overtake()
	return o.SendPolicies.ChangePolicy(ctx, owner, policyID, change)
}

// TestOneOfTwoConcurrentEqualSetsCreatesTheLimit sets the same limit in two concurrent requests. An
// overtaking request stores the limit after the overtaken request has created the rule. The
// overtaken request must report the limit as unchanged.
func TestOneOfTwoConcurrentEqualSetsCreatesTheLimit(t *testing.T) {
	fx := newFixture(t)
	var overtaking limits.SetResult
	fx.Policies = overtakenPolicies{fx.store, func() {
		fx.Policies = fx.store
		overtaking = fx.set(t, nil, 7)
	}}
	overtaken := fx.set(t, nil, 7)
	if overtaking.PolicyResult != sendlimit.Created || overtaken.PolicyResult != sendlimit.Unchanged {
		t.Errorf("the requests report %s and %s, want created and unchanged", overtaking.PolicyResult, overtaken.PolicyResult)
	}
	if overtaken.Limit != overtaking.Limit {
		t.Errorf("the limits are %+v and %+v, want the same", overtaking.Limit, overtaken.Limit)
	}
}

// TestSetForALimitChangedMeanwhileIsAnUpdate checks that Set does not report a limit as unchanged
// if another request changed the limit while Set called the platform.
func TestSetForALimitChangedMeanwhileIsAnUpdate(t *testing.T) {
	fx := newFixture(t)
	fx.set(t, nil, 10)
	fx.Platform = overtakenPlatform{fx.fake, func() {
		fx.Platform, fx.now = fx.fake, fx.now.Add(time.Second)
		fx.set(t, nil, 5)
		fx.now = fx.now.Add(time.Second)
	}}
	result := fx.set(t, nil, 10)
	if result.PolicyResult != sendlimit.Updated || result.Policy.PerDay != 10 || !result.Policy.UpdatedAt.Equal(fx.now) {
		t.Fatalf("got %+v, want an update", result)
	}
	if got, err := fx.Get(t.Context(), fx.owner, guid, nil); err != nil || got != result.Limit {
		t.Fatalf("the limit is %+v, %v, want %+v", got, err, result.Limit)
	}
}
