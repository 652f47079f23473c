// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// began is when the discoveries of these checks began: after what was stored.
var began = now.Add(time.Minute)

func discover(t testing.TB, s Stores, owner access.AccountID, domains []domain.Domain, boxes []mailbox.Platform) {
	t.Helper()
	must(t, "save discovery", s.SaveDiscovery(t.Context(), owner, guid(1), ports.Found{Began: began, Domains: domains, Mailboxes: boxes}))
}

func domainNamesOf(t testing.TB, s Stores, owner access.AccountID) []string {
	t.Helper()
	list, err := s.Domains(t.Context(), owner, guid(1))
	must(t, "list domains", err)
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

var discoveredDomainChecks = []storeCheck{
	{"listed domains are added and updated, vanished ones removed", func(t testing.TB, s Stores) {
		ann, known := mailDomain(t, s)
		addDomain(t, s, ann, guid(1), "vanished.test")
		known = everything(known)
		discover(t, s, ann, []domain.Domain{known, everything(domain.Domain{Name: "new.test"})}, nil)
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{"contoso.test", "new.test"}) {
			t.Fatalf("stored: %v", got)
		}
		got, err := s.Domain(t.Context(), ann, guid(1), known.Name)
		must(t, "known", err)
		if diff := cmp.Diff(known, got); diff != "" {
			t.Fatalf("the known domain (-want +got):\n%s", diff)
		}
		fresh, err := s.Domain(t.Context(), ann, guid(1), "new.test")
		must(t, "new", err)
		want := everything(domain.Domain{
			ID: fresh.ID, TenantID: known.TenantID, TenantGUID: guid(1), Name: "new.test", Added: true, CreatedAt: began,
		})
		if diff := cmp.Diff(want, fresh); diff != "" {
			t.Fatalf("the new domain (-want +got):\n%s", diff)
		}
	}},
	{"a list that could not be had changes nothing, an empty one is empty", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		discover(t, s, ann, nil, nil)
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); len(names) != 1 || len(boxes) != 1 {
			t.Fatalf("left are %v and %v", names, boxes)
		}
		discover(t, s, ann, []domain.Domain{}, []mailbox.Platform{})
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); len(names) != 0 || len(boxes) != 0 {
			t.Fatalf("left are %v and %v", names, boxes)
		}
	}},
	{"domains stored after it began, and under way, stay", func(t testing.TB, s Stores) {
		ann, _ := mailDomain(t, s)
		for name, at := range map[string]time.Time{"later.test": began.Add(time.Second), "underway.test": now} {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), name, 12, at)
			must(t, "reserve", err)
			d.Added = name == "later.test"
			must(t, "save", s.SaveDomain(t.Context(), ann, d))
		}
		discover(t, s, ann, []domain.Domain{}, nil)
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{"later.test"}) {
			t.Fatalf("stored: %v", got)
		}
		d, err := s.ReserveDomain(t.Context(), ann, guid(1), "underway.test", 12, now)
		must(t, "reserve", err)
		if d.Fresh {
			t.Fatal("the adding under way lost its place")
		}
	}},
	{"an adding that nobody goes on with gives its place back", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		for _, name := range []string{"abandoned.test", "resumed.test"} {
			_, err := s.ReserveDomain(t.Context(), ann, guid(1), name, 12, began.Add(-24*time.Hour))
			must(t, "reserve", err)
		}
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "resumed.test", 12, now)
		must(t, "resume", err)
		discover(t, s, ann, []domain.Domain{}, nil)
		for name, fresh := range map[string]bool{"abandoned.test": true, "resumed.test": false} {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), name, 12, now)
			must(t, "reserve", err)
			if d.Fresh != fresh {
				t.Fatalf("%s: the place is free: %v", name, d.Fresh)
			}
		}
	}},
	{"a listed domain whose adding lost its answer is added", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		lost, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 12, now)
		must(t, "reserve", err)
		discover(t, s, ann, []domain.Domain{{Name: "contoso.test", Added: true}}, nil)
		got, err := s.Domain(t.Context(), ann, guid(1), "contoso.test")
		must(t, "domain", err)
		if got.ID != lost.ID {
			t.Fatalf("got %+v, want the row %s", got, lost.ID)
		}
	}},
	{"what an operation saw meanwhile is not undone", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		verified := d
		verified.Verified, verified.CheckedAt = true, began.Add(time.Second)
		must(t, "save", s.SaveDomain(t.Context(), ann, verified))
		discover(t, s, ann, []domain.Domain{d}, nil)
		got, err := s.Domain(t.Context(), ann, guid(1), d.Name)
		must(t, "domain", err)
		if !got.Verified {
			t.Fatal("the discovery took the verification back")
		}
	}},
	{"only the holder's tenant can be discovered", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		bob := newAccount(t, s, "bob")
		foreign := s.SaveDiscovery(t.Context(), bob, guid(1), ports.Found{Began: began, Domains: []domain.Domain{}})
		refused(t, "save discovery", foreign, fault.TenantNotFound)
		same(t, "save discovery", foreign, s.SaveDiscovery(t.Context(), ann, noGUID, ports.Found{Began: began}))
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{d.Name}) {
			t.Fatalf("stored: %v", got)
		}
	}},
}
