// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// listing is what a platform lists, with fields that tell mailboxes apart.
func listing(addresses ...string) []mailbox.Platform {
	all := make([]mailbox.Platform, 0, len(addresses))
	for _, a := range addresses {
		all = append(all, mailbox.Platform{
			ObjectID: "object of " + a, DisplayName: hostile, Address: a, PrincipalName: a,
			Alias: "alias of " + a, AccountEnabled: true, CreatedAt: now.Add(-time.Hour),
		})
	}
	return all
}

func addressesOf(t testing.TB, s Stores, owner access.AccountID) []string {
	t.Helper()
	list, err := s.Mailboxes(t.Context(), owner, guid(1))
	must(t, "list mailboxes", err)
	var all []string
	for _, m := range list {
		all = append(all, m.Address)
	}
	return all
}

func stored(t testing.TB, s Stores, owner access.AccountID, address string) mailbox.Mailbox {
	t.Helper()
	list, err := s.Mailboxes(t.Context(), owner, guid(1))
	must(t, "list mailboxes", err)
	i := slices.IndexFunc(list, func(m mailbox.Mailbox) bool { return m.Address == address })
	if i < 0 {
		t.Fatalf("%s is not listed", address)
	}
	return list[i]
}

var discoveredMailboxChecks = []storeCheck{
	{"listed mailboxes are added and vanished ones removed", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		addMailbox(t, s, ann, d, "vanished", mailbox.Ready)
		addMailbox(t, s, ann, d, "unfinished", mailbox.Created)
		discover(t, s, ann, nil, listing("New@contoso.test", "shared@contoso.onmicrosoft.test"))
		if got := addressesOf(t, s, ann); !slices.Equal(got, []string{"new@contoso.test", "shared@contoso.onmicrosoft.test"}) {
			t.Fatalf("stored: %v", got)
		}
		got := stored(t, s, ann, "new@contoso.test")
		want := mailbox.Mailbox{
			ID: got.ID, TenantGUID: guid(1), DomainID: d.ID, Stage: mailbox.Ready, ObjectID: "object of New@contoso.test",
			DisplayName: hostile, Address: "new@contoso.test", PrincipalName: "New@contoso.test", Alias: "alias of New@contoso.test",
			AccountEnabled: true, CreatedAt: now.Add(-time.Hour), DomainName: d.Name, TenantName: "Contoso",
		}
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if builtin := stored(t, s, ann, "shared@contoso.onmicrosoft.test"); builtin.DomainID != "" || builtin.DomainName != "contoso.onmicrosoft.test" {
			t.Fatalf("the built-in domain's mailbox is %+v", builtin)
		}
	}},
	{"a known mailbox keeps its id, origin and limit", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		ours := addMailbox(t, s, ann, d, "ours", mailbox.Ready)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, ours.ID, 9, now))
		for range 2 {
			discover(t, s, ann, nil, listing("OURS@contoso.test"))
		}
		got := stored(t, s, ann, "ours@contoso.test")
		if got.ID != ours.ID || !got.Provisioned || got.DailySendLimit != 9 || got.DisplayName != hostile || !got.AccountEnabled {
			t.Fatalf("got %+v", got)
		}
	}},
	{"a late list does not take back a sign-in name that we set", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		ours := addMailbox(t, s, ann, d, "ours", mailbox.Ready)
		ours.PrincipalName = ours.Address
		must(t, "save", s.SaveMailbox(t.Context(), ann, ours))
		late := listing("ours@contoso.test", "foreign@contoso.test")
		late[0].PrincipalName, late[1].PrincipalName = "ours.1@contoso.onmicrosoft.test", "foreign.1@contoso.onmicrosoft.test"
		for range 2 {
			discover(t, s, ann, nil, late)
		}
		if got := stored(t, s, ann, "ours@contoso.test").PrincipalName; got != ours.Address {
			t.Fatalf("ours became %s", got)
		}
		if got := stored(t, s, ann, "foreign@contoso.test").PrincipalName; got != late[1].PrincipalName {
			t.Fatalf("the foreign one is %s", got)
		}
	}},
	{"creations under way, and what came later, stay", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		later, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "later"), 3, began.Add(time.Second))
		must(t, "reserve", err)
		later[0].Stage = mailbox.Ready
		must(t, "save", s.SaveMailbox(t.Context(), ann, later[0]))
		discover(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "creating", "reserved", "later"), 3, now)
		must(t, "reserve", err)
		for _, m := range got {
			if m.Fresh {
				t.Fatalf("%s lost its place", m.Address)
			}
		}
	}},
	{"a creation that nobody goes on with gives its place back", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "abandoned", "resumed"), 3, began.Add(-24*time.Hour))
		must(t, "reserve", err)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "resumed"), 3, now)
		must(t, "resume", err)
		discover(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "abandoned", "resumed"), 3, now)
		must(t, "reserve", err)
		if !got[0].Fresh || got[1].Fresh {
			t.Fatalf("got %+v", got)
		}
	}},
	{"the stage of a creation tells whose making a listed mailbox is", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		discover(t, s, ann, nil, listing("reserved@contoso.test", "creating@contoso.test"))
		if m := stored(t, s, ann, "reserved@contoso.test"); m.Stage != mailbox.Ready || m.Provisioned {
			t.Fatalf("what was only reserved is %+v", m)
		}
		if m := stored(t, s, ann, "creating@contoso.test"); m.Stage != mailbox.Created || !m.Provisioned {
			t.Fatalf("what was being created is %+v", m)
		}
	}},
	{"discoveries and reservations at once agree on the rows", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		errs := atOnce(20, func(i int) error {
			if i%2 == 0 {
				_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a", "b", "c"), 3, now)
				return err
			}
			return s.SaveDiscovery(t.Context(), ann, guid(1), ports.Found{Began: began, Mailboxes: listing("a@contoso.test", "b@contoso.test", "c@contoso.test")})
		})
		if n := winners(t, errs, nil); n != 20 || len(addressesOf(t, s, ann)) > 3 {
			t.Fatalf("%d went well, listed: %v", n, addressesOf(t, s, ann))
		}
	}},
}
