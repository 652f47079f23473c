// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
)

var reserveMailboxChecks = []storeCheck{
	{"places come in the order asked for, old ones among them", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		old := addMailbox(t, s, ann, d, "m", mailbox.Ready)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "z", "m", "a"), 3, now)
		must(t, "reserve", err)
		for i, want := range []string{"z@contoso.test", "m@contoso.test", "a@contoso.test"} {
			m := got[i]
			existing := want == old.Address
			if m.Address != want || m.Fresh == existing || (m.ID == old.ID) != existing || m.DomainID != d.ID ||
				m.TenantGUID != guid(1) || m.TenantName != "Contoso" || m.DomainName != d.Name || m.ID == "" {
				t.Fatalf("place %d is %+v", i, m)
			}
		}
		if got[0].Stage != mailbox.Reserved || got[0].Provisioned || got[0].DisplayName != "Name of z" {
			t.Fatalf("a new place is %+v", got[0])
		}
	}},
	{"three that exist are there at the cap, one more is not", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		for range 2 {
			_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a", "b", "c"), 3, now)
			must(t, "reserve", err)
		}
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a", "d"), 3, now)
		refused(t, "one more", err, fault.MailboxLimitReached)
	}},
	{"of mailboxes that do not all fit none is stored", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		addMailbox(t, s, ann, d, "a", mailbox.Ready)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "b", "c", "d"), 3, now)
		refused(t, "reserve", err, fault.MailboxLimitReached)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "b", "e"), 3, now)
		must(t, "two that fit", err)
		if !got[0].Fresh || !got[1].Fresh {
			t.Fatalf("a refused reservation left %+v", got)
		}
	}},
	{"what discovery found takes places too", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		discover(t, s, ann, nil, listing("x@contoso.test", "y@contoso.test", "other@elsewhere.test"))
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a", "b"), 3, now)
		refused(t, "two more", err, fault.MailboxLimitReached)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a"), 3, now)
		must(t, "one more", err)
	}},
	{"a place is given back until the mailbox exists", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
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
	{"a crowd takes exactly the places there are", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		errs := atOnce(crowd, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, fmt.Sprintf("m%d", i)), 3, now)
			if err != nil {
				return err
			}
			got[0].Stage = mailbox.Ready
			return s.SaveMailbox(t.Context(), ann, got[0])
		})
		list, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		if n := winners(t, errs, fault.MailboxLimitReached); n != 3 || len(list) != 3 {
			t.Fatalf("%d were let in, %d are stored", n, len(list))
		}
	}},
	{"a crowd of pairs never takes half a pair", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		errs := atOnce(crowd, func(i int) error {
			_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, fmt.Sprintf("l%d", i), fmt.Sprintf("r%d", i)), 3, now)
			return err
		})
		if n := winners(t, errs, fault.MailboxLimitReached); n != 1 {
			t.Fatalf("%d pairs were let in", n)
		}
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "single"), 3, now)
		must(t, "the one place left", err)
	}},
	{"a crowd with one address takes one place", func(t testing.TB, s Stores) {
		ann, d := mailDomain(t, s)
		took := make([]int, crowd)
		errs := atOnce(crowd, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "sales"), 1, now)
			if err == nil && got[0].Fresh {
				took[i] = 1
			}
			return err
		})
		sum := 0
		for _, n := range took {
			sum += n
		}
		if n := winners(t, errs, nil); n != crowd || sum != 1 {
			t.Fatalf("%d got the row, %d took the place", n, sum)
		}
	}},
}
