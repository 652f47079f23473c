// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// readAt is a verified domain that was last read so long after now; never for 0.
func readAt(t testing.TB, s Stores, owner access.AccountID, tenant int, name string, after time.Duration, drifted ...domain.Drift) domain.Domain {
	t.Helper()
	was := addDomain(t, s, owner, guid(tenant), name)
	d := was
	d.Verified = true
	d.Health = domain.Health{Sound: drifted, Drifted: drifted}
	if after > 0 {
		d.CheckedAt = now.Add(after)
	}
	_, err := s.ChangeDomain(t.Context(), owner, was, d)
	must(t, "change", err)
	return d
}

func stale(t testing.TB, s Stores, before time.Duration, most int) (ids []string) {
	t.Helper()
	all, err := s.StaleDomains(t.Context(), now.Add(before), most)
	must(t, "list stale domains", err)
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

func healthOf(t testing.TB, s Stores) ports.DomainHealth {
	t.Helper()
	h, err := s.DomainHealth(t.Context())
	must(t, "health", err)
	return h
}

var staleDomainChecks = []storeCheck{
	{"the domain whose read is longest ago comes first, of any account", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, ann, 1)
		attach(t, s, bob, 2)
		third := readAt(t, s, ann, 1, "three.test", 3*time.Hour)
		second := readAt(t, s, bob, 2, "two.test", 2*time.Hour)
		fourth := readAt(t, s, ann, 1, "four.test", 4*time.Hour)
		never := readAt(t, s, bob, 2, "never.test", 0)
		inOrder(t, "all", stale(t, s, 9*time.Hour, 9), never.ID, second.ID, third.ID, fourth.ID)
		inOrder(t, "at the third's time", stale(t, s, 3*time.Hour, 9), never.ID, second.ID, third.ID)
		inOrder(t, "two", stale(t, s, 9*time.Hour, 2), never.ID, second.ID)
		all, err := s.StaleDomains(t.Context(), now.Add(time.Hour), 1)
		must(t, "list", err)
		if all[0].Account != bob {
			t.Fatalf("got %+v", all[0])
		}
	}},
	{"only verified domains are read again", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "unverified.test")
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "unfinished.test", 12, now)
		must(t, "reserve", err)
		if ids := stale(t, s, 9*time.Hour, 9); len(ids) != 0 {
			t.Fatalf("listed are %v", ids)
		}
		if h := healthOf(t, s); h.Verified != 0 || !h.Oldest.IsZero() || len(h.Drifted) != 0 {
			t.Fatalf("counted is %+v", h)
		}
	}},
	{"health counts the domains of all accounts by what drifted", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, ann, 1)
		attach(t, s, bob, 2)
		readAt(t, s, ann, 1, "well.test", 2*time.Hour)
		readAt(t, s, ann, 1, "gone.test", 3*time.Hour, domain.SPFGone)
		readAt(t, s, bob, 2, "both.test", time.Hour, domain.SPFGone, domain.MXMoved)
		want := ports.DomainHealth{
			Verified: 3, Oldest: now.Add(time.Hour), Drifted: map[domain.Drift]int{domain.SPFGone: 2, domain.MXMoved: 1},
		}
		if diff := cmp.Diff(want, healthOf(t, s)); diff != "" {
			t.Fatalf("counted (-want +got):\n%s", diff)
		}
	}},
}
