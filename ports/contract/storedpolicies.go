// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// setPolicy puts a policy in force.
func setPolicy(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID, scope string, perDay int) sendlimit.Policy {
	t.Helper()
	p, err := s.ReservePolicy(t.Context(), owner, id, scope, now)
	must(t, "reserve policy", err)
	p.PerDay, p.RuleID, p.UpdatedAt = perDay, "rule of "+scope, now.Add(time.Minute).Truncate(time.Microsecond)
	must(t, "save policy", s.SavePolicy(t.Context(), owner, p))
	return p
}

func policies(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID) []sendlimit.Policy {
	t.Helper()
	all, err := s.Policies(t.Context(), owner, id)
	must(t, "list policies", err)
	return all
}

func ruled(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID, want ...string) {
	t.Helper()
	got, err := s.RuledScopes(t.Context(), owner, id)
	must(t, "list scopes with rules", err)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("scopes with rules are %q, want %q", got, want)
	}
}

// dropDomains takes all domains away, as a discovery does that finds none.
func dropDomains(t testing.TB, s Stores, owner access.AccountID, id tenant.GUID) {
	t.Helper()
	must(t, "discover", s.SaveDiscovery(t.Context(), owner, id, ports.Found{Began: now.Add(time.Hour), Domains: []domain.Domain{}}))
}

func noPolicy(t testing.TB, what string, s Stores, owner access.AccountID, id tenant.GUID, scope string) {
	t.Helper()
	if _, err := s.Policy(t.Context(), owner, id, scope); !errors.Is(err, fault.PolicyNotFound) {
		t.Fatalf("%s: %v", what, err)
	}
}

var sendPolicyChecks = []storeCheck{
	{"policies are kept by scope, each by itself", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		attach(t, s, ann, 2)
		addDomain(t, s, ann, guid(1), "a.test")
		wide := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		domain := setPolicy(t, s, ann, guid(1), "a.test", 5)
		want := sendlimit.Policy{ID: domain.ID, Tenant: guid(1), Scope: "a.test", PerDay: 5, RuleID: "rule of a.test", RuleName: sendlimit.RuleName("a.test"),
			CreatedAt: now.Truncate(time.Microsecond), UpdatedAt: domain.UpdatedAt}
		got, err := s.Policy(t.Context(), ann, guid(1), "a.test")
		must(t, "find", err)
		if diff := compare.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := compare.Diff([]sendlimit.Policy{wide, domain}, policies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if n := len(policies(t, s, ann, guid(2))); n != 0 {
			t.Fatalf("another tenant has %d", n)
		}
		noPolicy(t, "another tenant", s, ann, guid(2), sendlimit.TenantWide)
		ruled(t, s, ann, guid(1), "", "a.test")
		ruled(t, s, ann, guid(2))
	}},
	{"a policy that is only meant to be is not there, but may have a rule", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		first, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now)
		must(t, "reserve", err)
		if first.PerDay != 0 || first.RuleID != "" || first.RuleName != sendlimit.RuleName("") {
			t.Fatalf("got %+v", first)
		}
		noPolicy(t, "reserved", s, ann, guid(1), sendlimit.TenantWide)
		if n := len(policies(t, s, ann, guid(1))); n != 0 {
			t.Fatalf("%d policies", n)
		}
		ruled(t, s, ann, guid(1), "")
		again, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now.Add(time.Hour))
		must(t, "reserve again", err)
		if diff := compare.Diff(first, again); diff != "" {
			t.Fatalf("another policy (-first +again):\n%s", diff)
		}
	}},
	{"a policy that is set again stays the same one", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		first := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		held, err := s.ReservePolicy(t.Context(), ann, guid(1), sendlimit.TenantWide, now.Add(time.Hour))
		must(t, "reserve again", err)
		if diff := compare.Diff(first, held); diff != "" {
			t.Fatalf("(-first +held):\n%s", diff)
		}
		held.PerDay, held.UpdatedAt = 7, held.UpdatedAt.Add(time.Hour)
		must(t, "save", s.SavePolicy(t.Context(), ann, held))
		if diff := compare.Diff([]sendlimit.Policy{held}, policies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
	{"of many who set a scope at once all set the same policy", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		ids := make([]string, crowd)
		for _, err := range atOnce(crowd, func(i int) error {
			p, err := s.ReservePolicy(t.Context(), ann, guid(1), []string{"", "a.test"}[i%2], now)
			if err != nil {
				return err
			}
			ids[i], p.PerDay, p.UpdatedAt = p.ID, 1+i%25, now
			return s.SavePolicy(t.Context(), ann, p)
		}) {
			must(t, "set", err)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 2 || len(policies(t, s, ann, guid(1))) != 2 {
			t.Fatalf("%d policies were set, %d are there", n, len(policies(t, s, ann, guid(1))))
		}
	}},
	{"only a domain that is added has a policy", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		attach(t, s, ann, 2)
		addDomain(t, s, ann, guid(2), "a.test")
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "b.test", 9, now)
		must(t, "reserve domain", err)
		for _, scope := range []string{"a.test", "b.test", "c.test", "."} {
			if _, err := s.ReservePolicy(t.Context(), ann, guid(1), scope, now); !errors.Is(err, fault.DomainNotFound) {
				t.Fatalf("%s: %v", scope, err)
			}
		}
		ruled(t, s, ann, guid(1))
	}},
	{"a policy goes with its domain, and its rule is remembered", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		gone := setPolicy(t, s, ann, guid(1), "a.test", 5)
		wide := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		dropDomains(t, s, ann, guid(1))
		noPolicy(t, "its domain is gone", s, ann, guid(1), "a.test")
		if err := s.SavePolicy(t.Context(), ann, gone); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saved: %v", err)
		}
		ruled(t, s, ann, guid(1), "", "a.test")
		addDomain(t, s, ann, guid(1), "a.test")
		noPolicy(t, "a domain of the same name", s, ann, guid(1), "a.test")
		fresh := setPolicy(t, s, ann, guid(1), "a.test", 6)
		if fresh.ID == gone.ID {
			t.Fatal("the policy of a former domain came back")
		}
		if diff := compare.Diff([]sendlimit.Policy{wide, fresh}, policies(t, s, ann, guid(1))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
	{"a policy goes with its tenant", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		p := setPolicy(t, s, ann, guid(1), sendlimit.TenantWide, 20)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		attach(t, s, ann, 1)
		noPolicy(t, "connected anew", s, ann, guid(1), sendlimit.TenantWide)
		ruled(t, s, ann, guid(1))
		if err := s.SavePolicy(t.Context(), ann, p); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saved: %v", err)
		}
	}},
	{"a foreign tenant's policies and an unknown one's are not there", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, bob, 2)
		p := setPolicy(t, s, bob, guid(2), sendlimit.TenantWide, 20)
		for what, ask := range map[string]func(context.Context, tenant.GUID) error{
			"list": func(ctx context.Context, id tenant.GUID) error { _, err := s.Policies(ctx, ann, id); return err },
			"find": func(ctx context.Context, id tenant.GUID) error { _, err := s.Policy(ctx, ann, id, ""); return err },
			"reserve": func(ctx context.Context, id tenant.GUID) error {
				_, err := s.ReservePolicy(ctx, ann, id, "", now)
				return err
			},
			"rules": func(ctx context.Context, id tenant.GUID) error { _, err := s.RuledScopes(ctx, ann, id); return err },
		} {
			foreign, unknown := ask(t.Context(), guid(2)), ask(t.Context(), guid(9))
			same(t, what, foreign, unknown)
			if !errors.Is(foreign, fault.TenantNotFound) {
				t.Fatalf("%s: %v", what, foreign)
			}
		}
		stolen := p
		stolen.PerDay = 1
		if err := s.SavePolicy(t.Context(), ann, stolen); !errors.Is(err, fault.PolicyNotFound) {
			t.Fatalf("saved: %v", err)
		}
		if diff := compare.Diff([]sendlimit.Policy{p}, policies(t, s, bob, guid(2))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
}

// dayIs holds a tenant to its day and its holder.
func dayIs(t testing.TB, s Stores, id tenant.GUID, place string, holder access.AccountID) {
	t.Helper()
	got, owner, err := s.Day(t.Context(), id)
	must(t, "day", err)
	if got != place || owner != holder {
		t.Fatalf("%s of %s, want %s of %s", got, owner, place, holder)
	}
}

var sendDayChecks = []storeCheck{
	{"a tenant's day is UTC's until it is set", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, ann, 1)
		attach(t, s, bob, 2)
		dayIs(t, s, guid(1), "UTC", ann)
		for _, place := range []string{"Europe/Berlin", "America/St_Johns", "UTC"} {
			owner, err := s.SetDay(t.Context(), guid(1), place)
			must(t, "set", err)
			if owner != ann {
				t.Fatalf("set for %s", owner)
			}
			dayIs(t, s, guid(1), place, ann)
			dayIs(t, s, guid(2), "UTC", bob)
		}
		_, _, unknown := s.Day(t.Context(), guid(9))
		_, set := s.SetDay(t.Context(), guid(9), "UTC")
		if !errors.Is(unknown, fault.TenantNotFound) || !errors.Is(set, fault.TenantNotFound) {
			t.Fatalf("%v, %v", unknown, set)
		}
	}},
	{"another day counts anew, and a run under way has lost the tenant", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		w.count(t, s, r, 7)
		_, err := s.SetDay(t.Context(), w.guid, "Europe/Berlin")
		must(t, "set", err)
		holds(t, "the run", false)(s.HoldTenant(t.Context(), r, leased))
		holds(t, "its counts", false)(s.SaveCounts(t.Context(), r, ports.SendCounts{Today: midnight, At: later, Mark: later}))
		fresh := w.claim(t, s)
		if fresh.Place != "Europe/Berlin" || !fresh.Mark.IsZero() {
			t.Fatalf("claimed %+v", fresh)
		}
		if boxes := w.list(t, s, fresh); len(boxes[0].Counts) != 0 {
			t.Fatalf("counts were kept: %+v", boxes[0].Counts)
		}
	}},
	{"the day that is set already changes nothing", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		w.count(t, s, r, 7)
		_, err := s.SetDay(t.Context(), w.guid, "UTC")
		must(t, "set", err)
		holds(t, "the run", true)(s.HoldTenant(t.Context(), r, leased))
		if boxes := w.list(t, s, r); len(boxes[0].Counts) != 1 {
			t.Fatalf("counts are gone: %+v", boxes)
		}
	}},
}
