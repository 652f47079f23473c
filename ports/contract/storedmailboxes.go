// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
)

// mailDomain is a fresh account with a tenant that holds one domain.
func mailDomain(t testing.TB, s Stores) (access.AccountID, domain.Domain) {
	t.Helper()
	ann := newAccount(t, s, "ann")
	return ann, addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
}

var storedMailboxChecks = []storeCheck{
	{"a mailbox comes back as it was saved, its limit and counts apart", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		want := addMailbox(t, s, ann, d, "sales", mailbox.Creating)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, want.ID, 7, now))
		want.Stage, want.Provisioned, want.AccountEnabled = mailbox.Ready, true, true
		want.ObjectID, want.DisplayName, want.PrincipalName, want.Alias = "object", hostile, "sales@contoso.test", "sales.contoso"
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
		ann, d := mailDomain(t, s)
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
		refused(t, "one that is being created", err, fault.MailboxNotFound)
	}},
	{"another account's mailbox is as unknown as one that is not there", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		bob := newAccount(t, s, "bob")
		attach(t, s, bob, 2)
		unknown := m
		unknown.ID, unknown.TenantGUID, unknown.DomainID = string(noGUID), noGUID, string(noGUID)
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
				_, err := s.ReserveMailboxes(t.Context(), o, x.DomainID, specs(d, "new"), 3, now)
				return err
			}},
			"save":  {fault.MailboxNotFound, func(o access.AccountID, x mailbox.Mailbox) error { return s.SaveMailbox(t.Context(), o, x) }},
			"limit": {fault.MailboxNotFound, func(o access.AccountID, x mailbox.Mailbox) error { return s.SetSendLimit(t.Context(), o, x.ID, 5, now) }},
		} {
			foreign := c.call(bob, m)
			refused(t, name, foreign, c.code)
			same(t, name, foreign, c.call(ann, unknown))
		}
		_, err := s.Mailbox(t.Context(), bob, guid(2), m.ID)
		refused(t, "at the other tenant", err, fault.MailboxNotFound)
		_, err = s.Mailbox(t.Context(), ann, guid(1), "nonsense")
		refused(t, "malformed", err, fault.MailboxNotFound)
	}},
	{"a mailbox belongs to one tenant of the account", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		attach(t, s, ann, 2)
		_, err := s.Mailbox(t.Context(), ann, guid(2), m.ID)
		refused(t, "at the other tenant", err, fault.MailboxNotFound)
	}},
}
