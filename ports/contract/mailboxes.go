// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var mailboxChecks = []check{
	{"an unknown mailbox is not found", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		_, err := client.Mailbox(call(t), "nobody@"+name)
		refused(t, "mailbox", err, fault.MailboxNotFound)
		refused(t, "rename", client.Rename(call(t), "nobody@"+name, "Nobody"), fault.MailboxNotFound)
	}},
	{"no mailbox is made while the domain is not accepted", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{AcceptedDomainLag: time.Hour})
		name := verified(t, w, client)
		must(t, "enable mail", client.EnableMail(call(t), name))
		_, err := client.CreateMailbox(call(t), mailbox.Spec{DisplayName: "Anna", Address: "anna@" + name})
		ended(t, "create", err, outcome.NotReady)
		if got := addresses(t, client); len(got) != 0 {
			t.Fatalf("the platform holds %v", got)
		}
		w.Advance(t, 2*time.Hour)
		made(t, w, client, "anna@"+name)
	}},
	{"a mailbox is found by its address, whatever its case", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		address := "anna.k@" + accepted(t, w, client)
		m := made(t, w, client, address)
		if m.ObjectID == "" || m.Address != address || m.DisplayName != "Anna Keller" || m.Alias == "" || m.PrincipalName == "" {
			t.Fatalf("made %+v", m)
		}
		for _, spelling := range []string{address, strings.ToUpper(address)} {
			found, err := client.Mailbox(call(t), spelling)
			must(t, "mailbox", err)
			if found.ObjectID != m.ObjectID || found.Address != address {
				t.Fatalf("found %+v, want %+v", found, m)
			}
		}
	}},
	{"all shared mailboxes are listed, users only counted", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		before, err := client.UserMailboxes(call(t))
		must(t, "user mailboxes", err)
		name := accepted(t, w, client)
		made(t, w, client, "anna@"+name)
		made(t, w, client, "ben@"+name)
		if got := addresses(t, client); len(got) != 2 {
			t.Fatalf("listed %v, want two", got)
		}
		after, err := client.UserMailboxes(call(t))
		must(t, "user mailboxes", err)
		if after != before {
			t.Fatalf("%d user mailboxes became %d", before, after)
		}
	}},
	{"users are counted before the mail server is prepared", func(t testing.TB, w World) {
		_, client := connected(t, w, Setup{})
		_, err := client.UserMailboxes(call(t))
		must(t, "user mailboxes", err)
	}},
	{"licences for e-mail are counted, bought ones and trials apart, before the mail server is prepared", func(t testing.TB, w World) {
		for _, want := range []tenant.Licenses{{Paid: 25, Trial: 4}, {Paid: 3}, {Trial: 25}} {
			_, client := connected(t, w, Setup{Licenses: want})
			licensed(t, client, want)
		}
	}},
	{"shared mailboxes take no licences and bring none", func(t testing.TB, w World) {
		want := tenant.Licenses{Paid: 2}
		_, client := ready(t, w, Setup{Licenses: want})
		name := accepted(t, w, client)
		for _, local := range []string{"anna", "ben", "cleo"} {
			made(t, w, client, local+"@"+name)
		}
		licensed(t, client, want)
	}},
	{"one local part on two domains does not collide", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		first := made(t, w, client, "anna@"+accepted(t, w, client))
		second := made(t, w, client, "anna@"+accepted(t, w, client))
		if strings.EqualFold(first.Alias, second.Alias) {
			t.Fatalf("both have the alias %s", first.Alias)
		}
	}},
	{"an address is made once", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		address := "anna@" + accepted(t, w, client)
		m := made(t, w, client, address)
		again, err := client.CreateMailbox(call(t), mailbox.Spec{DisplayName: "Other", Address: address})
		if err == nil && again.ObjectID != m.ObjectID {
			t.Fatalf("a second mailbox %+v beside %+v", again, m)
		}
		if err != nil {
			refused(t, "create again", err, fault.InvalidMailboxEmail)
		}
		if got := addresses(t, client); len(got) != 1 {
			t.Fatalf("the platform holds %v", got)
		}
	}},
	{"sign-in waits for the directory, submission for the mail server", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{MailboxLag: time.Hour})
		m := made(t, w, client, "anna@"+accepted(t, w, client))
		ended(t, "sign-in", client.OpenSignIn(call(t), m.ObjectID, m.Address, secret.New(password)), outcome.NotReady)
		ended(t, "submission", client.OpenSubmission(call(t), m.Address), outcome.NotReady)
		w.Advance(t, 2*time.Hour)
		open(t, w, client, m)
	}},
	{"an open mailbox signs in with its address", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		m := made(t, w, client, "anna@"+accepted(t, w, client))
		open(t, w, client, m)
		open(t, w, client, m)
		found, err := client.Mailbox(call(t), m.Address)
		must(t, "mailbox", err)
		if !found.AccountEnabled || found.PrincipalName != m.Address {
			t.Fatalf("found %+v, want sign-in with %s", found, m.Address)
		}
	}},
	{"a weak password is refused", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		m := made(t, w, client, "anna@"+accepted(t, w, client))
		var err error
		eventually(t, w, "sign-in", func() bool {
			err = client.OpenSignIn(call(t), m.ObjectID, m.Address, secret.New("short"))
			return outcome.Of(err) != outcome.NotReady
		})
		refused(t, "sign-in", err, fault.WeakPassword)
	}},
	{"a mailbox is renamed", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		m := made(t, w, client, "anna@"+accepted(t, w, client))
		must(t, "rename", client.Rename(call(t), m.Address, "Anna Schmidt"))
		must(t, "rename again", client.Rename(call(t), m.Address, "Anna Schmidt"))
		found, err := client.Mailbox(call(t), m.Address)
		must(t, "mailbox", err)
		if found.DisplayName != "Anna Schmidt" {
			t.Fatalf("it is called %q", found.DisplayName)
		}
	}},
}

// open does what stands between a mailbox and its use.
func open(t testing.TB, w World, client ports.MailTenant, m mailbox.Platform) {
	t.Helper()
	patiently(t, w, "sign-in", func() error {
		return client.OpenSignIn(call(t), m.ObjectID, m.Address, secret.New(password))
	})
	patiently(t, w, "submission", func() error { return client.OpenSubmission(call(t), m.Address) })
}

func licensed(t testing.TB, client ports.MailTenant, want tenant.Licenses) {
	t.Helper()
	got, err := client.EmailLicenses(call(t))
	must(t, "licences", err)
	if got != want {
		t.Fatalf("licences are %+v, want %+v", got, want)
	}
}

func addresses(t testing.TB, client ports.MailTenant) []string {
	t.Helper()
	list, err := client.Mailboxes(call(t))
	must(t, "mailboxes", err)
	var out []string
	for _, m := range list {
		out = append(out, m.Address)
	}
	return out
}
