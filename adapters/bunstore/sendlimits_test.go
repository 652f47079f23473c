// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// savePolicy stores the limit and the rule of a policy.
func savePolicy(ctx context.Context, s *Store, owner access.AccountID, p sendlimit.Policy) error {
	return s.ChangePolicy(ctx, owner, p.ID, func(sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error) { return p, nil, nil })
}

// setPolicy stores a policy that is in force.
func setPolicy(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, scope string, perDay int) sendlimit.Policy {
	t.Helper()
	p, err := s.ReservePolicy(t.Context(), owner, id, scope, now)
	must(t, "reserve policy", err)
	p.PerDay, p.RuleID, p.UpdatedAt = perDay, "rule of "+scope, now.Add(time.Minute).Truncate(time.Microsecond)
	must(t, "save policy", savePolicy(t.Context(), s, owner, p))
	return p
}

func listPolicies(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID) []sendlimit.Policy {
	t.Helper()
	policies, err := s.Policies(t.Context(), owner, id)
	must(t, "list policies", err)
	return policies
}

func requireScopesWithRules(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, want ...string) {
	t.Helper()
	got, err := s.ScopesWithRules(t.Context(), owner, id)
	must(t, "list scopes with rules", err)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("scopes with rules are %q, want %q", got, want)
	}
}

// removeAllDomains stores a discovery that found no domains.
func removeAllDomains(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID) {
	t.Helper()
	saveDiscoveryAfterMiss(t, s, owner, id, ports.DiscoveryResult{Began: now.Add(time.Hour), Domains: []domain.Platform{}})
}

func requireNoPolicy(t testing.TB, label string, s *Store, owner access.AccountID, id tenant.GUID, scope string) {
	t.Helper()
	if _, err := s.Policy(t.Context(), owner, id, scope); !errors.Is(err, fault.PolicyNotFound) {
		t.Fatalf("%s: the policy of %q: got %v, want policy_not_found", label, scope, err)
	}
}

func TestEachScopeHasItsOwnPolicy(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		addDomain(t, s, ann, guid(1), "a.test")
		tenantWide := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		domainPolicy := setPolicy(t, s, ann, guid(1), "a.test", 5)
		want := sendlimit.Policy{ID: domainPolicy.ID, Tenant: guid(1), Scope: "a.test", PerDay: 5, RuleID: "rule of a.test", RuleName: sendlimit.RuleName("a.test"),
			CreatedAt: now.Truncate(time.Microsecond), UpdatedAt: domainPolicy.UpdatedAt}
		got, err := s.Policy(t.Context(), ann, guid(1), "a.test")
		must(t, "find", err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the policy of a.test (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]sendlimit.Policy{tenantWide, domainPolicy}, listPolicies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("the policies (-want +got):\n%s", diff)
		}
		if n := len(listPolicies(t, s, ann, guid(2))); n != 0 {
			t.Fatalf("tenant 2 has %d policies, want none", n)
		}
		requireNoPolicy(t, "tenant 2", s, ann, guid(2), sendlimit.TenantWide)
		requireScopesWithRules(t, s, ann, guid(1), "", "a.test")
		requireScopesWithRules(t, s, ann, guid(2))
		addDomain(t, s, ann, guid(2), "a.test")
		setPolicy(t, s, ann, guid(2), "a.test", 7)
		if n := len(listPolicies(t, s, ann, guid(1))); n != 2 {
			t.Fatalf("tenant 1 has %d policies, want 2, after tenant 2 got a policy for the same domain name", n)
		}
		requireScopesWithRules(t, s, ann, guid(2), "a.test")
		_, err = s.ScopesWithRules(t.Context(), ann, unknownGUID)
		requireRefusal(t, "scopes of an unknown tenant", err, fault.TenantNotFound)
	})
}

func TestReservedPolicyIsNotListedButItsScopeCanHaveRule(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		reserved, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now)
		must(t, "reserve", err)
		if reserved.PerDay != 0 || reserved.RuleID != "" || reserved.RuleName != sendlimit.RuleName("") {
			t.Fatalf("the reserved policy is %+v, want only the name of the rule", reserved)
		}
		requireNoPolicy(t, "reserved", s, ann, guid(1), sendlimit.TenantWide)
		if n := len(listPolicies(t, s, ann, guid(1))); n != 0 {
			t.Fatalf("%d policies are listed, want none", n)
		}
		requireScopesWithRules(t, s, ann, guid(1), "")
		reservedAgain, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now.Add(time.Hour))
		must(t, "reserve again", err)
		if diff := cmp.Diff(reserved, reservedAgain); diff != "" {
			t.Fatalf("the second reservation returned a different policy (-first +second):\n%s", diff)
		}
	})
}

func TestPolicyThatIsSetAgainKeepsItsIdentity(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		stored := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		reserved, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now.Add(time.Hour))
		must(t, "reserve again", err)
		if diff := cmp.Diff(stored, reserved); diff != "" {
			t.Fatalf("the reservation of a stored policy (-stored +reserved):\n%s", diff)
		}
		reserved.PerDay, reserved.UpdatedAt = 7, reserved.UpdatedAt.Add(time.Hour)
		must(t, "save", savePolicy(t.Context(), s, ann, reserved))
		if diff := cmp.Diff([]sendlimit.Policy{reserved}, listPolicies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("the policies (-want +got):\n%s", diff)
		}
	})
}

func TestConcurrentWritersOfScopeSetSamePolicy(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		ids := make([]string, concurrency)
		for _, err := range concurrently(concurrency, func(i int) error {
			policy, err := s.ReservePolicy(t.Context(), ann, guid(1), []string{"", "a.test"}[i%2], now)
			if err != nil {
				return err
			}
			ids[i], policy.PerDay, policy.UpdatedAt = policy.ID, 1+i%25, now
			return savePolicy(t.Context(), s, ann, policy)
		}) {
			must(t, "set", err)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 2 || len(listPolicies(t, s, ann, guid(1))) != 2 {
			t.Fatalf("%d policies were set and %d are listed, want 2 (one for each scope)", n, len(listPolicies(t, s, ann, guid(1))))
		}
	})
}

func TestOnlyAddedDomainCanHavePolicy(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		addDomain(t, s, ann, guid(2), "foreign.test")
		addDomain(t, s, ann, guid(1), "added.test")
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "reserved.test", 9, now)
		must(t, "reserve domain", err)
		for _, scope := range []string{"foreign.test", "reserved.test", "unknown.test", "."} {
			if _, err := s.ReservePolicy(t.Context(), ann, guid(1), scope, now); !errors.Is(err, fault.DomainNotFound) {
				t.Fatalf("%s: got %v, want domain_not_found", scope, err)
			}
		}
		requireScopesWithRules(t, s, ann, guid(1))
	})
}

func TestPolicyIsDeletedWithItsDomainAndItsScopeStillHasRule(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		deletedPolicy := setPolicy(t, s, ann, guid(1), "a.test", 5)
		tenantWide := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		removeAllDomains(t, s, ann, guid(1))
		requireNoPolicy(t, "after the deletion of the domain", s, ann, guid(1), "a.test")
		if err := savePolicy(t.Context(), s, ann, deletedPolicy); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saving the policy returned %v, want policy_not_found", err)
		}
		requireScopesWithRules(t, s, ann, guid(1), "", "a.test")
		addDomain(t, s, ann, guid(1), "a.test")
		requireNoPolicy(t, "for a new domain of the same name", s, ann, guid(1), "a.test")
		newPolicy := setPolicy(t, s, ann, guid(1), "a.test", 6)
		if newPolicy.ID == deletedPolicy.ID {
			t.Fatal("the new domain got the policy of the deleted domain, want a new policy")
		}
		if diff := cmp.Diff([]sendlimit.Policy{tenantWide, newPolicy}, listPolicies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("the policies (-want +got):\n%s", diff)
		}
	})
}

func TestScopeOfDeletedDomainStillHasRuleIfNewPolicyIsNotStored(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		setPolicy(t, s, ann, guid(1), "a.test", 5)
		removeAllDomains(t, s, ann, guid(1))
		addDomain(t, s, ann, guid(1), "a.test")
		hook.cutOff(t, `INSERT INTO "send_policies"`, func(ctx context.Context) error {
			_, err := s.ReservePolicy(ctx, ann, guid(1), "a.test", now)
			return err
		})
		requireScopesWithRules(t, s, ann, guid(1), "a.test")
	})
}

func TestPolicyIsDeletedWithItsTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		policy := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		attachTenant(t, s, ann, 1)
		requireNoPolicy(t, "connected anew", s, ann, guid(1), sendlimit.TenantWide)
		requireScopesWithRules(t, s, ann, guid(1))
		if err := savePolicy(t.Context(), s, ann, policy); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saving the policy returned %v, want policy_not_found", err)
		}
	})
}

func TestPoliciesOfForeignTenantGetTheSameAnswerAsUnknownOnes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, bob, 2)
		policy := setPolicy(t, s, bob, guid(2), sendlimit.TenantWide, 20)
		for label, call := range map[string]func(context.Context, tenant.GUID) error{
			"list": func(ctx context.Context, id tenant.GUID) error { _, err := s.Policies(ctx, ann, id); return err },
			"find": func(ctx context.Context, id tenant.GUID) error { _, err := s.Policy(ctx, ann, id, ""); return err },
			"reserve": func(ctx context.Context, id tenant.GUID) error {
				_, err := s.ReservePolicy(ctx, ann, id, "", now)
				return err
			},
			"rules": func(ctx context.Context, id tenant.GUID) error { _, err := s.ScopesWithRules(ctx, ann, id); return err },
		} {
			foreign, unknown := call(t.Context(), guid(2)), call(t.Context(), guid(9))
			requireSameError(t, label, foreign, unknown)
			if !errors.Is(foreign, fault.TenantNotFound) {
				t.Fatalf("%s: got %v, want tenant_not_found", label, foreign)
			}
		}
		changed := policy
		changed.PerDay = 1
		if err := savePolicy(t.Context(), s, ann, changed); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saving the policy returned %v, want policy_not_found", err)
		}
		if diff := cmp.Diff([]sendlimit.Policy{policy}, listPolicies(t, s, bob, guid(2))); diff != "" {
			t.Fatalf("the policies (-want +got):\n%s", diff)
		}
	})
}

// requireTimeZone checks the time zone of a tenant's day and the account that holds the tenant.
func requireTimeZone(t testing.TB, s *Store, id tenant.GUID, timeZone string, holder access.AccountID) {
	t.Helper()
	got, owner, err := s.TimeZone(t.Context(), id)
	must(t, "time zone", err)
	if got != timeZone || owner != holder {
		t.Fatalf("the time zone is %s, and the tenant belongs to %s, want %s and %s", got, owner, timeZone, holder)
	}
}

func TestDayOfTenantIsInUTCUntilItsTimeZoneIsSet(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		requireTimeZone(t, s, guid(1), "UTC", ann)
		for _, timeZone := range []string{"Europe/Berlin", "America/St_Johns", "UTC"} {
			owner, err := s.SetTimeZone(t.Context(), guid(1), timeZone)
			must(t, "set", err)
			if owner != ann {
				t.Fatalf("the time zone was set for %s, want %s", owner, ann)
			}
			requireTimeZone(t, s, guid(1), timeZone, ann)
			requireTimeZone(t, s, guid(2), "UTC", bob)
		}
		_, _, readErr := s.TimeZone(t.Context(), guid(9))
		_, setErr := s.SetTimeZone(t.Context(), guid(9), "UTC")
		if !errors.Is(readErr, fault.TenantNotFound) || !errors.Is(setErr, fault.TenantNotFound) {
			t.Fatalf("an unknown tenant: reading returned %v and setting %v, want tenant_not_found", readErr, setErr)
		}
	})
}

func TestNewTimeZoneRestartsCountsAndEndsClaim(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		earlierClaim := fixture.claim(t, s)
		fixture.saveCounts(t, s, earlierClaim, 7)
		_, err := s.SetTimeZone(t.Context(), fixture.guid, "Europe/Berlin")
		must(t, "set", err)
		requireLeaseHeld(t, "renew the earlier claim", false)(s.RenewTenantLease(t.Context(), earlierClaim, longLease))
		requireLeaseHeld(t, "save counts with the earlier claim", false)(s.SaveCounts(t.Context(), earlierClaim, ports.SendCounts{Today: dayStart, At: dueTime, Mark: dueTime}))
		laterClaim := fixture.claim(t, s)
		if laterClaim.TimeZone != "Europe/Berlin" || !laterClaim.Mark.IsZero() {
			t.Fatalf("the later claim is %+v, want the new time zone and no mark", laterClaim)
		}
		if boxes := fixture.listBoxes(t, s, laterClaim); len(boxes[0].Counts) != 0 {
			t.Fatalf("the mailbox has the counts %+v, want none", boxes[0].Counts)
		}
	})
}

func TestNewTimeZoneKeepsCountsOfOtherTenants(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		otherTenant := addSendLimitTenant(t, s, fixture.owner, 2)
		claim := otherTenant.claim(t, s)
		otherTenant.saveCounts(t, s, claim, 7)
		_, err := s.SetTimeZone(t.Context(), fixture.guid, "Europe/Berlin")
		must(t, "set", err)
		if boxes := otherTenant.listBoxes(t, s, claim); len(boxes[0].Counts) != 1 {
			t.Fatalf("the mailboxes are %+v, want one count of the first mailbox", boxes)
		}
	})
}

func TestSettingCurrentTimeZoneChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		fixture.saveCounts(t, s, claim, 7)
		_, err := s.SetTimeZone(t.Context(), fixture.guid, "UTC")
		must(t, "set", err)
		requireLeaseHeld(t, "renew the claim", true)(s.RenewTenantLease(t.Context(), claim, longLease))
		if boxes := fixture.listBoxes(t, s, claim); len(boxes[0].Counts) != 1 {
			t.Fatalf("the mailboxes are %+v, want one count of the first mailbox", boxes)
		}
	})
}
