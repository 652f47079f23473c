// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// newMailDomain creates an account with one tenant and one domain, contoso.test.
func newMailDomain(t testing.TB, s Stores) (access.AccountID, domain.Domain) {
	t.Helper()
	ann := newAccount(t, s, "ann")
	return ann, addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
}

var storedMailboxChecks = []storeCheck{
	{"a mailbox comes back as it was saved, except its limit and counts", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		want := addMailbox(t, s, ann, d, "sales", mailbox.Creating)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, want.ID, 7, now))
		want.Stage, want.Provisioned, want.AccountEnabled = mailbox.Ready, true, true
		want.ObjectID, want.DisplayName, want.PrincipalName, want.Alias = "object", hostileText, "sales@contoso.test", "sales.contoso"
		want.DailySendLimit, want.SendsToday, want.BlockedAt = 25, 99, now
		must(t, "save", s.SaveMailbox(t.Context(), ann, want))
		want.DailySendLimit, want.SendsToday, want.BlockedAt = 7, 0, want.SendsTodayAt
		want.TenantName, want.DomainName, want.DomainID = "Contoso", "contoso.test", d.ID
		got, err := s.Mailbox(t.Context(), ann, guid(1), want.ID)
		must(t, "mailbox", err)
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}},
	{"mailboxes are listed by address once they exist", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		empty, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		hidden := addMailbox(t, s, ann, d, "a", mailbox.Creating)
		addMailbox(t, s, ann, d, "c", mailbox.Created)
		addMailbox(t, s, ann, d, "b", mailbox.Ready)
		list, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		if len(empty) != 0 || len(list) != 2 || list[0].Address != "b@contoso.test" || list[1].Address != "c@contoso.test" {
			t.Fatalf("got %+v, before %+v", list, empty)
		}
		_, err = s.Mailbox(t.Context(), ann, guid(1), hidden.ID)
		requireRefusal(t, "one that is being created", err, fault.MailboxNotFound)
	}},
	{"a foreign mailbox gets the same answer as an unknown one", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		bob := newAccount(t, s, "bob")
		attachTenant(t, s, bob, 2)
		unknown := m
		unknown.ID, unknown.TenantGUID, unknown.DomainID = string(unknownGUID), unknownGUID, string(unknownGUID)
		for name, c := range map[string]struct {
			code fault.Code
			call func(o access.AccountID, x mailbox.Mailbox) error
		}{
			"list": {fault.TenantNotFound, func(o access.AccountID, x mailbox.Mailbox) error {
				_, err := s.Mailboxes(t.Context(), o, x.TenantGUID)
				return err
			}},
			"mailbox": {fault.TenantNotFound, func(o access.AccountID, x mailbox.Mailbox) error {
				_, err := s.Mailbox(t.Context(), o, x.TenantGUID, x.ID)
				return err
			}},
			"reserve": {fault.DomainNotFound, func(o access.AccountID, x mailbox.Mailbox) error {
				_, err := s.ReserveMailboxes(t.Context(), o, x.DomainID, mailboxSpecs(d, "new"), 3, now)
				return err
			}},
			"save":  {fault.MailboxNotFound, func(o access.AccountID, x mailbox.Mailbox) error { return s.SaveMailbox(t.Context(), o, x) }},
			"limit": {fault.MailboxNotFound, func(o access.AccountID, x mailbox.Mailbox) error { return s.SetSendLimit(t.Context(), o, x.ID, 5, now) }},
		} {
			foreign := c.call(bob, m)
			requireRefusal(t, name, foreign, c.code)
			requireSameError(t, name, foreign, c.call(ann, unknown))
		}
		_, err := s.Mailbox(t.Context(), bob, guid(2), m.ID)
		requireRefusal(t, "at the other tenant", err, fault.MailboxNotFound)
		_, err = s.Mailbox(t.Context(), ann, guid(1), "nonsense")
		requireRefusal(t, "malformed", err, fault.MailboxNotFound)
	}},
	{"a mailbox belongs to one tenant of the account", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		attachTenant(t, s, ann, 2)
		_, err := s.Mailbox(t.Context(), ann, guid(2), m.ID)
		requireRefusal(t, "at the other tenant", err, fault.MailboxNotFound)
	}},
}

var reserveMailboxChecks = []storeCheck{
	{"reservations are returned in the order of the request, with existing mailboxes among them", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		old := addMailbox(t, s, ann, d, "m", mailbox.Ready)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "z", "m", "a"), 3, now)
		must(t, "reserve", err)
		for i, want := range []string{"z@contoso.test", "m@contoso.test", "a@contoso.test"} {
			m := got[i]
			existing := want == old.Address
			if m.Address != want || m.JustReserved == existing || (m.ID == old.ID) != existing || m.DomainID != d.ID ||
				m.TenantGUID != guid(1) || m.TenantName != "Contoso" || m.DomainName != d.Name || m.ID == "" {
				t.Fatalf("reservation %d is %+v", i, m)
			}
		}
		if got[0].Stage != mailbox.Reserved || got[0].Provisioned || got[0].DisplayName != "Name of z" {
			t.Fatalf("a new reservation is %+v", got[0])
		}
	}},
	{"at the limit existing mailboxes are returned, and one more is refused", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		for range 2 {
			_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "c"), 3, now)
			must(t, "reserve", err)
		}
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "d"), 3, now)
		requireRefusal(t, "one more", err, fault.MailboxLimitReached)
	}},
	{"if a request exceeds the limit, none of its mailboxes is stored", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "a", mailbox.Ready)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "b", "c", "d"), 3, now)
		requireRefusal(t, "reserve", err, fault.MailboxLimitReached)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "b", "e"), 3, now)
		must(t, "two that fit", err)
		if !got[0].JustReserved || !got[1].JustReserved {
			t.Fatalf("a refused reservation left %+v", got)
		}
	}},
	{"discovered mailboxes count towards the limit", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		saveDiscovery(t, s, ann, nil, platformMailboxes("x@contoso.test", "y@contoso.test", "other@elsewhere.test"))
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b"), 3, now)
		requireRefusal(t, "two more", err, fault.MailboxLimitReached)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a"), 3, now)
		must(t, "one more", err)
	}},
	{"a reservation can be released until the mailbox exists", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		bob := newAccount(t, s, "bob")
		for _, tt := range []struct {
			stage mailbox.Stage
			freed bool
		}{{mailbox.Reserved, true}, {mailbox.Creating, true}, {mailbox.Created, false}, {mailbox.Ready, false}} {
			m := addMailbox(t, s, ann, d, string(tt.stage), tt.stage)
			must(t, "release by another account", s.ReleaseMailbox(t.Context(), bob, m.ID))
			must(t, "the row afterwards", s.SetSendLimit(t.Context(), ann, m.ID, 1, now))
			must(t, "release", s.ReleaseMailbox(t.Context(), ann, m.ID))
			if err := s.SaveMailbox(t.Context(), ann, m); (err != nil) != tt.freed {
				t.Fatalf("%s: saving after the release gives %v", tt.stage, err)
			}
		}
	}},
	{"concurrent reservations never exceed the limit", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		errs := concurrently(concurrency, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, fmt.Sprintf("m%d", i)), 3, now)
			if err != nil {
				return err
			}
			got[0].Stage = mailbox.Ready
			return s.SaveMailbox(t.Context(), ann, got[0])
		})
		list, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		if n := countWinners(t, errs, fault.MailboxLimitReached); n != 3 || len(list) != 3 {
			t.Fatalf("%d calls succeeded, %d are stored", n, len(list))
		}
	}},
	{"concurrent reservations of pairs never store half a pair", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		errs := concurrently(concurrency, func(i int) error {
			_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, fmt.Sprintf("l%d", i), fmt.Sprintf("r%d", i)), 3, now)
			return err
		})
		if n := countWinners(t, errs, fault.MailboxLimitReached); n != 1 {
			t.Fatalf("%d pairs were stored", n)
		}
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "single"), 3, now)
		must(t, "the one place left", err)
	}},
	{"concurrent reservations of one address create one mailbox", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		took := make([]int, concurrency)
		errs := concurrently(concurrency, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "sales"), 1, now)
			if err == nil && got[0].JustReserved {
				took[i] = 1
			}
			return err
		})
		sum := 0
		for _, n := range took {
			sum += n
		}
		if n := countWinners(t, errs, nil); n != concurrency || sum != 1 {
			t.Fatalf("%d calls got the row, %d created it", n, sum)
		}
	}},
}

// platformMailboxes returns mailboxes as a platform lists them, with different values in each.
func platformMailboxes(addresses ...string) []mailbox.Platform {
	all := make([]mailbox.Platform, 0, len(addresses))
	for _, a := range addresses {
		all = append(all, mailbox.Platform{
			ObjectID: "object of " + a, DisplayName: hostileText, Address: a, PrincipalName: a,
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

func findMailbox(t testing.TB, s Stores, owner access.AccountID, address string) mailbox.Mailbox {
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
	{"listed mailboxes are added, and missing ones removed", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "vanished", mailbox.Ready)
		addMailbox(t, s, ann, d, "unfinished", mailbox.Created)
		saveDiscovery(t, s, ann, nil, platformMailboxes("New@contoso.test", "shared@contoso.onmicrosoft.test"))
		if got := addressesOf(t, s, ann); !slices.Equal(got, []string{"new@contoso.test", "shared@contoso.onmicrosoft.test"}) {
			t.Fatalf("stored: %v", got)
		}
		got := findMailbox(t, s, ann, "new@contoso.test")
		want := mailbox.Mailbox{
			ID: got.ID, TenantGUID: guid(1), DomainID: d.ID, Stage: mailbox.Ready, ObjectID: "object of New@contoso.test",
			DisplayName: hostileText, Address: "new@contoso.test", PrincipalName: "New@contoso.test", Alias: "alias of New@contoso.test",
			AccountEnabled: true, CreatedAt: now.Add(-time.Hour), DomainName: d.Name, TenantName: "Contoso",
		}
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if builtin := findMailbox(t, s, ann, "shared@contoso.onmicrosoft.test"); builtin.DomainID != "" || builtin.DomainName != "contoso.onmicrosoft.test" {
			t.Fatalf("the built-in domain's mailbox is %+v", builtin)
		}
	}},
	{"a known mailbox keeps its id, origin and limit", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		ours := addMailbox(t, s, ann, d, "ours", mailbox.Ready)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, ours.ID, 9, now))
		for range 2 {
			saveDiscovery(t, s, ann, nil, platformMailboxes("OURS@contoso.test"))
		}
		got := findMailbox(t, s, ann, "ours@contoso.test")
		if got.ID != ours.ID || !got.Provisioned || got.DailySendLimit != 9 || got.DisplayName != hostileText || !got.AccountEnabled {
			t.Fatalf("got %+v", got)
		}
	}},
	{"an outdated list does not overwrite a sign-in name that tenantry set", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		ours := addMailbox(t, s, ann, d, "ours", mailbox.Ready)
		ours.PrincipalName = ours.Address
		must(t, "save", s.SaveMailbox(t.Context(), ann, ours))
		late := platformMailboxes("ours@contoso.test", "foreign@contoso.test")
		late[0].PrincipalName, late[1].PrincipalName = "ours.1@contoso.onmicrosoft.test", "foreign.1@contoso.onmicrosoft.test"
		for range 2 {
			saveDiscovery(t, s, ann, nil, late)
		}
		if got := findMailbox(t, s, ann, "ours@contoso.test").PrincipalName; got != ours.Address {
			t.Fatalf("the sign-in name that tenantry set became %s", got)
		}
		if got := findMailbox(t, s, ann, "foreign@contoso.test").PrincipalName; got != late[1].PrincipalName {
			t.Fatalf("the foreign one is %s", got)
		}
	}},
	{"mailboxes that are being created, or were stored later, stay", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		laterBoxes, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "later"), 3, discoveryStart.Add(time.Second))
		must(t, "reserve", err)
		laterBoxes[0].Stage = mailbox.Ready
		must(t, "save", s.SaveMailbox(t.Context(), ann, laterBoxes[0]))
		saveDiscovery(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "creating", "reserved", "later"), 3, now)
		must(t, "reserve", err)
		for _, m := range got {
			if m.JustReserved {
				t.Fatalf("the reservation of %s was lost", m.Address)
			}
		}
	}},
	{"an abandoned reservation of a mailbox is released", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "abandoned", "resumed"), 3, discoveryStart.Add(-24*time.Hour))
		must(t, "reserve", err)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "resumed"), 3, now)
		must(t, "resume", err)
		saveDiscovery(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "abandoned", "resumed"), 3, now)
		must(t, "reserve", err)
		if !got[0].JustReserved || got[1].JustReserved {
			t.Fatalf("got %+v", got)
		}
	}},
	{"the stage of a creation decides whether a listed mailbox counts as provisioned", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		saveDiscovery(t, s, ann, nil, platformMailboxes("reserved@contoso.test", "creating@contoso.test"))
		if m := findMailbox(t, s, ann, "reserved@contoso.test"); m.Stage != mailbox.Ready || m.Provisioned {
			t.Fatalf("the reserved mailbox is %+v", m)
		}
		if m := findMailbox(t, s, ann, "creating@contoso.test"); m.Stage != mailbox.Created || !m.Provisioned {
			t.Fatalf("the mailbox that was being created is %+v", m)
		}
	}},
	{"concurrent discoveries and reservations store each mailbox once", func(t testing.TB, s Stores) {
		ann, d := newMailDomain(t, s)
		errs := concurrently(20, func(i int) error {
			if i%2 == 0 {
				_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "c"), 3, now)
				return err
			}
			return s.SaveDiscovery(t.Context(), ann, guid(1), ports.Found{Began: discoveryStart, Mailboxes: platformMailboxes("a@contoso.test", "b@contoso.test", "c@contoso.test")})
		})
		if n := countWinners(t, errs, nil); n != 20 || len(addressesOf(t, s, ann)) > 3 {
			t.Fatalf("%d went well, listed: %v", n, addressesOf(t, s, ann))
		}
	}},
}
