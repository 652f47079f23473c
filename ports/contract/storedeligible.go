// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// unknownMailbox is a mailbox of nobody.
const unknownMailbox = "70000000-0000-4000-8000-000000000000"

// eligibleChecks are of what may be connected.
var eligibleChecks = []storeCheck{
	{"eligible is by address what this service made, with its names and its connection here", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		newSending(t, s, "bob", 2)
		second := addDomain(t, s, h.owner, attach(t, s, h.owner, 3).GUID, "more.test")
		addMailbox(t, s, h.owner, second, "a", mailbox.Created)
		addMailbox(t, s, h.owner, second, "unfinished", mailbox.Creating)
		rediscover(t, s, h, "found@ann.test", h.boxes[0].Address, h.boxes[1].Address)
		want := h.connect(t, s, h.one, 0, integration.ConnectionFailed)
		h.connect(t, s, h.two, 1, integration.ConnectionConnected)
		got, err := s.Eligible(t.Context(), h.owner, h.one.ID)
		must(t, "eligible", err)
		if len(got) != 3 || got[0].Mailbox.Address != "a@more.test" || got[0].Mailbox.TenantGUID != guid(3) {
			t.Fatalf("got %+v", got)
		}
		full, err := s.Mailbox(t.Context(), h.owner, guid(1), h.boxes[0].ID)
		must(t, "mailbox", err)
		if diff := cmp.Diff([]integration.Eligible{{Mailbox: full, Connection: want}}, got[1:2]); diff != "" ||
			full.TenantName != "Contoso" || full.DomainName != "ann.test" {
			t.Fatalf("%+v (-want +got):\n%s", full, diff)
		}
		if got[0].Connection != (integration.Connection{}) || got[2].Connection != (integration.Connection{}) {
			t.Fatalf("a connection of another integration is shown: %+v", got)
		}
		one, err := s.EligibleMailbox(t.Context(), h.owner, h.one.ID, full.ID)
		must(t, "one", err)
		if diff := cmp.Diff(got[1], one); diff != "" {
			t.Fatalf("alone it is another (-list +alone):\n%s", diff)
		}
	}},
	{"eligible says what another integration holds", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for _, there := range everyStatus {
			h.connect(t, s, h.two, 0, there)
			all, err := s.Eligible(t.Context(), h.owner, h.one.ID)
			must(t, "eligible", err)
			if len(all) != 2 || all[0].Elsewhere != there.Held() || all[1].Elsewhere {
				t.Fatalf("%s there: %+v", there, all)
			}
			one, err := s.EligibleMailbox(t.Context(), h.owner, h.one.ID, h.boxes[0].ID)
			must(t, "one", err)
			same, err := s.EligibleMailbox(t.Context(), h.owner, h.two.ID, h.boxes[0].ID)
			must(t, "there", err)
			if one.Elsewhere != there.Held() || same.Elsewhere {
				t.Fatalf("%s there: here %+v, there %+v", there, one, same)
			}
		}
	}},
	{"an account without mailboxes has none eligible", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		got, err := s.Eligible(t.Context(), ann, addIntegration(t, s, ann, 1).ID)
		must(t, "eligible", err)
		if len(got) != 0 {
			t.Fatalf("got %+v", got)
		}
	}},
	{"a foreign mailbox is as unknown as one that discovery found", func(t testing.TB, s Stores) {
		ann, bob := newSending(t, s, "ann", 1), newSending(t, s, "bob", 2)
		found := rediscover(t, s, bob, "found@bob.test", bob.boxes[0].Address, bob.boxes[1].Address)
		for what, call := range map[string]func(integrationID, mailboxID string) error{
			"find": func(integrationID, mailboxID string) error {
				_, err := s.EligibleMailbox(t.Context(), bob.owner, integrationID, mailboxID)
				return err
			},
			"begin": func(integrationID, mailboxID string) error {
				x := aSession(bob.one, bob.boxes[0], 1)
				x.IntegrationID, x.MailboxID = integrationID, mailboxID
				return s.BeginSession(t.Context(), bob.owner, x, connectionID(1), now)
			},
			"save": func(integrationID, mailboxID string) error {
				c := bob.connection(bob.one, 0, integration.ConnectionConnected)
				c.IntegrationID, c.MailboxID = integrationID, mailboxID
				_, err := s.SaveConnection(t.Context(), bob.owner, c, time.Time{})
				return err
			},
		} {
			foreign := call(bob.one.ID, ann.boxes[0].ID)
			refused(t, what, foreign, fault.MailboxNotFound)
			for name, id := range map[string]string{"unknown": unknownMailbox, "nonsense": "x", "found": found.ID} {
				same(t, what+" "+name, foreign, call(bob.one.ID, id))
			}
			before := call(ann.one.ID, ann.boxes[0].ID)
			refused(t, what+" by a foreign integration", before, fault.IntegrationNotFound)
			same(t, what+" by an unknown one", before, call(integrationID(99), "x"))
		}
		counted(t, s, ann.owner, ann.one.ID, integration.Counts{})
		counted(t, s, bob.owner, bob.one.ID, integration.Counts{})
	}},
}

// rediscover stores what the platform lists, which is these addresses, and finds
// the mailbox with the first.
func rediscover(t testing.TB, s Stores, h sending, addresses ...string) mailbox.Mailbox {
	t.Helper()
	f := ports.Found{Mailboxes: []mailbox.Platform{}, Began: time.Now().Add(time.Hour)}
	for _, address := range addresses {
		f.Mailboxes = append(f.Mailboxes, mailbox.Platform{Address: address})
	}
	must(t, "save discovery", s.SaveDiscovery(t.Context(), h.owner, h.d.TenantGUID, f))
	all, err := s.Mailboxes(t.Context(), h.owner, h.d.TenantGUID)
	must(t, "list mailboxes", err)
	for _, m := range all {
		if m.Address == addresses[0] {
			return m
		}
	}
	t.Fatalf("%s is not there: %+v", addresses[0], all)
	return mailbox.Mailbox{}
}
