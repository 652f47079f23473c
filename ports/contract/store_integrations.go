// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

func integrationID(n int) string { return fmt.Sprintf("50000000-0000-7000-8000-%012d", n) }

// newIntegration returns the nth integration, created n seconds after now.
func newIntegration(owner access.AccountID, n int) integration.Integration {
	at := now.Add(time.Duration(n) * time.Second)
	return integration.Integration{
		ID: integrationID(n), AccountID: owner, Provider: "instantly", Name: hostileText, Workspace: integration.Workspace{ID: "w", Name: hostileText},
		Status: integration.Connected, CredentialFields: []string{"api_key", hostileText}, LastTestedAt: at, CreatedAt: at, UpdatedAt: at,
	}
}

func credentialOf(n int) []byte { return []byte{0, byte(n), 255} }

func addIntegration(t testing.TB, s Stores, owner access.AccountID, n int) integration.Integration {
	t.Helper()
	i := newIntegration(owner, n)
	must(t, "add integration", s.AddIntegration(t.Context(), i, credentialOf(n), nil))
	return i
}

// requireIntegrations checks the list of the integrations of an account.
func requireIntegrations(t testing.TB, s Stores, owner access.AccountID, want ...integration.Integration) {
	t.Helper()
	got, err := s.Integrations(t.Context(), owner)
	must(t, "list integrations", err)
	if len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
		t.Fatalf("the integrations of %q (-want +got):\n%s", owner, cmp.Diff(want, got))
	}
}

// requireIntegration checks a stored integration, and that its credential is credentialOf(n).
func requireIntegration(t testing.TB, s Stores, want integration.Integration, n int) {
	t.Helper()
	got, credential, err := s.Integration(t.Context(), want.AccountID, want.ID)
	must(t, "find integration", err)
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(credential, credentialOf(n)) {
		t.Fatalf("credential %v, (-want +got):\n%s", credential, diff)
	}
}

// withAllFieldsChanged returns an integration with the same ids and a different value in every
// other field.
func withAllFieldsChanged(i integration.Integration) integration.Integration {
	at := now.Add(time.Hour)
	return integration.Integration{
		ID: i.ID, AccountID: i.AccountID, Provider: "other", Name: "other", Workspace: integration.Workspace{ID: "x", Name: "y"},
		Status: integration.Failed, HasError: true, CredentialFields: []string{"other"}, LastTestedAt: at, RefreshedAt: at.Add(time.Minute),
		CreatedAt: at, UpdatedAt: at.Add(time.Second),
	}
}

var integrationChecks = []storeCheck{
	{"an integration is stored with its credential", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		requireIntegration(t, s, addIntegration(t, s, ann, 1), 1)
		full := withAllFieldsChanged(newIntegration(ann, 2))
		must(t, "add", s.AddIntegration(t.Context(), full, credentialOf(2), nil))
		requireIntegration(t, s, full, 2)
	}},
	{"the integrations of an account are listed newest first", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		requireIntegrations(t, s, ann)
		third, first, bobs := addIntegration(t, s, ann, 3), addIntegration(t, s, ann, 1), addIntegration(t, s, bob, 2)
		requireIntegrations(t, s, ann, third, first)
		requireIntegrations(t, s, bob, bobs)
	}},
	{"saving changes only the result of a test", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want, other := addIntegration(t, s, ann, 1), addIntegration(t, s, ann, 2)
		saved := withAllFieldsChanged(want)
		must(t, "save", s.SaveIntegration(t.Context(), saved, nil))
		want.Status, want.HasError, want.Workspace = saved.Status, saved.HasError, saved.Workspace
		want.LastTestedAt, want.RefreshedAt, want.UpdatedAt = saved.LastTestedAt, saved.RefreshedAt, saved.UpdatedAt
		requireIntegration(t, s, want, 1)
		requireIntegration(t, s, other, 2)
	}},
	{"removing an integration deletes its sessions and connections and frees its mailboxes", func(t testing.TB, s Stores) {
		h := newIntegrationFixture(t, s, "ann", 1)
		h.beginSession(t, s, h.one, 0, 1)
		h.setConnection(t, s, h.one, 1, integration.ConnectionConnected)
		must(t, "remove", s.RemoveIntegration(t.Context(), h.owner, h.one.ID, nil))
		requireIntegrations(t, s, h.owner, h.two)
		_, _, err := s.Integration(t.Context(), h.owner, h.one.ID)
		requireRefusal(t, "find", err, fault.IntegrationNotFound)
		_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, sessionID(1))
		requireRefusal(t, "session", err, fault.SessionNotFound)
		requireCounts(t, s, h.owner, h.one.ID, integration.Counts{})
		h.beginSession(t, s, h.two, 0, 2)
		h.beginSession(t, s, h.two, 1, 3)
		requireRefusal(t, "remove again", s.RemoveIntegration(t.Context(), h.owner, h.one.ID, nil), fault.IntegrationNotFound)
		requireRefusal(t, "save", s.SaveIntegration(t.Context(), h.one, nil), fault.IntegrationNotFound)
	}},
	{"foreign and unknown integrations get the same answer", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		i := addIntegration(t, s, ann, 1)
		for what, call := range map[string]func(id string) error{
			"find": func(id string) error {
				_, _, err := s.Integration(t.Context(), bob, id)
				return err
			},
			"save": func(id string) error {
				foreign := withAllFieldsChanged(i)
				foreign.AccountID, foreign.ID = bob, id
				return s.SaveIntegration(t.Context(), foreign, nil)
			},
			"remove": func(id string) error { return s.RemoveIntegration(t.Context(), bob, id, nil) },
			"eligible": func(id string) error {
				_, err := s.Eligible(t.Context(), bob, id)
				return err
			},
			"refresh": func(id string) error {
				foreign := withAllFieldsChanged(i)
				foreign.ID = id
				_, err := s.SaveRefresh(t.Context(), bob, foreign, now, nil, nil)
				return err
			},
		} {
			requireRefusal(t, what, call(i.ID), fault.IntegrationNotFound)
			requireSameError(t, what, call(i.ID), call(integrationID(9)))
			requireSameError(t, what+" by nonsense", call(i.ID), call("x"))
		}
		requireIntegration(t, s, i, 1)
	}},
	{"an integration needs an open account", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		requireRefusal(t, "a closed one", s.AddIntegration(t.Context(), newIntegration(ann, 1), credentialOf(1), nil), fault.AccountClosed)
		unknown := newIntegration("10000000-0000-4000-8000-000000000000", 1)
		requireRefusal(t, "an unknown one", s.AddIntegration(t.Context(), unknown, credentialOf(1), nil), fault.AccountNotFound)
		requireIntegrations(t, s, ann)
	}},
	{"closing an account removes only its own integrations", func(t testing.TB, s Stores) {
		ann, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		ann.beginSession(t, s, ann.one, 0, 1)
		bob.beginSession(t, s, bob.one, 0, 2)
		if done := closeAccount(t, s, ann.owner); done.IntegrationsRemoved != 2 {
			t.Fatalf("got %+v", done)
		}
		requireIntegrations(t, s, ann.owner)
		_, _, err := s.Integration(t.Context(), ann.owner, ann.one.ID)
		requireRefusal(t, "find", err, fault.IntegrationNotFound)
		requireIntegrations(t, s, bob.owner, bob.two, bob.one)
		pending, err := s.PendingSessions(t.Context(), now.Add(1000*time.Hour), 9)
		must(t, "sessions", err)
		if len(pending) != 1 || pending[0].Account != bob.owner {
			t.Fatalf("sessions are left: %+v", pending)
		}
	}},
	{"an integration and its idempotent answer are committed together", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, ann, 2)
		requireCommitted(t, s, ann, map[string]func(*ports.Completion) error{
			"add": func(completion *ports.Completion) error {
				return s.AddIntegration(t.Context(), newIntegration(ann, 3), credentialOf(3), completion)
			},
			"save": func(completion *ports.Completion) error {
				return s.SaveIntegration(t.Context(), withAllFieldsChanged(newIntegration(ann, 1)), completion)
			},
			"remove": func(completion *ports.Completion) error {
				return s.RemoveIntegration(t.Context(), ann, integrationID(2), completion)
			},
			"refresh": func(completion *ports.Completion) error {
				_, err := s.SaveRefresh(t.Context(), ann, withAllFieldsChanged(newIntegration(ann, 1)), now, nil, completion)
				return err
			},
		}, func() {
			requireIntegrations(t, s, ann, newIntegration(ann, 2), newIntegration(ann, 1))
		})
	}},
}

// requireCommitted checks changes that store an idempotent answer. A change whose key was taken
// over must fail and store nothing, which unchanged checks. A change that holds its key must store
// the answer.
func requireCommitted(t testing.TB, s Stores, owner access.AccountID, changes map[string]func(*ports.Completion) error, unchanged func()) {
	t.Helper()
	key := byte(0)
	for what, change := range changes {
		key++
		c := newClaim(owner, key)
		c.Lease = expiredLease
		lost := mustClaim(t, s, c)
		_, won, err := s.TakeOver(t.Context(), lost, c)
		must(t, "take over", err)
		if !won {
			t.Fatal("a dead owner's key was not taken over")
		}
		requireRefusal(t, what, change(newCompletion(c, lost)), fault.KeyInProgress)
		unchanged()
	}
	for what, change := range changes {
		key++
		c := newClaim(owner, key)
		must(t, what, change(newCompletion(c, mustClaim(t, s, c))))
		if r := requireRecord(t, s, c.Key); string(r.Answer) != "answer" || r.Leased {
			t.Fatalf("%s: %+v", what, r)
		}
	}
}

// claimRefreshes claims due refreshes and returns the ids of their integrations.
func claimRefreshes(t testing.TB, s Stores, before, at time.Time, most int) (ids []string) {
	t.Helper()
	all, err := s.DueRefreshes(t.Context(), before, at, most)
	must(t, "due refreshes", err)
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func (h integrationFixture) saveRefresh(t testing.TB, s Stores, i integration.Integration, began time.Time, connections ...integration.Connection) int {
	t.Helper()
	stored, err := s.SaveRefresh(t.Context(), h.owner, i, began, connections, nil)
	must(t, "save refresh", err)
	return stored
}

var refreshChecks = []storeCheck{
	{"due refreshes are claimed oldest first, up to the limit, each once", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := 1; n <= 4; n++ {
			owner := ann
			if n%2 == 0 {
				owner = bob
			}
			addIntegration(t, s, owner, n)
		}
		hours := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
		requireOrder(t, "never refreshed", claimRefreshes(t, s, now, hours(1), 2), integrationID(1), integrationID(2))
		requireOrder(t, "the others", claimRefreshes(t, s, now, hours(2), 9), integrationID(3), integrationID(4))
		requireOrder(t, "all began", claimRefreshes(t, s, hours(1), hours(3), 9))
		requireOrder(t, "the first", claimRefreshes(t, s, hours(1).Add(time.Microsecond), hours(9), 1), integrationID(1))
		requireOrder(t, "the rest", claimRefreshes(t, s, hours(9), hours(9), 9), integrationID(2), integrationID(3), integrationID(4))
		got, err := s.DueRefreshes(t.Context(), hours(10), hours(10), 1)
		must(t, "due", err)
		want := newIntegration(ann, 1)
		if diff := cmp.Diff([]integration.Integration{want}, got); diff != "" {
			t.Fatalf("not as it is stored (-want +got):\n%s", diff)
		}
		requireIntegration(t, s, want, 1)
	}},
	{"concurrent claims of refreshes do not overlap", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := range 10 {
			addIntegration(t, s, ann, n)
			addIntegration(t, s, bob, 100+n)
		}
		got := make([][]integration.Integration, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			got[n], err = s.DueRefreshes(t.Context(), now, now.Add(time.Hour), 3)
			return err
		}) {
			must(t, "due", err)
		}
		handed := map[string]int{}
		for _, some := range got {
			for _, i := range some {
				handed[i.ID]++
			}
		}
		for id, n := range handed {
			if n != 1 {
				t.Fatalf("%s was handed out %d times", id, n)
			}
		}
		if len(handed) != 20 {
			t.Fatalf("%d were handed out", len(handed))
		}
	}},
	{"accounts without an active plan are not refreshed", func(t testing.TB, s Stores) {
		ann, bob, eve := newAccount(t, s, "ann"), newAccount(t, s, "bob"), newAccount(t, s, "eve")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, bob, 2)
		addIntegration(t, s, eve, 3)
		_, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		closeAccount(t, s, eve)
		requireOrder(t, "due", claimRefreshes(t, s, now, now, 9), integrationID(2))
		_, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		requireOrder(t, "due", claimRefreshes(t, s, now, now, 9), integrationID(1))
	}},
	{"a requested refresh counts as begun", func(t testing.TB, s Stores) {
		h := newIntegrationFixture(t, s, "ann", 1)
		h.saveRefresh(t, s, h.one, now.Add(time.Hour))
		requireOrder(t, "before it", claimRefreshes(t, s, now.Add(time.Hour), now.Add(2*time.Hour), 9), h.two.ID)
		h.saveRefresh(t, s, h.two, now) // a second refresh began before the first one was saved
		requireOrder(t, "before the other", claimRefreshes(t, s, now.Add(2*time.Hour), now.Add(2*time.Hour), 9), h.one.ID)
	}},
	{"a refresh stores the integration and its connections", func(t testing.TB, s Stores) {
		h := newIntegrationFixture(t, s, "ann", 1)
		was := h.setConnection(t, s, h.one, 0, integration.ConnectionConnected)
		seen := h.newConnection(h.one, 0, integration.ConnectionFailed)
		seen.ID, seen.AccountID, seen.AccountAddress, seen.AccountName, seen.Reason = connectionID(7), "other", "o@b.test", "", "other"
		seen.ConnectedAt, seen.UpdatedAt = time.Time{}, now.Add(time.Minute)
		fresh := h.newConnection(h.one, 1, integration.ConnectionConnected)
		after := withAllFieldsChanged(h.one)
		if n := h.saveRefresh(t, s, after, was.UpdatedAt, seen, fresh); n != 2 {
			t.Fatalf("%d were stored", n)
		}
		seen.ID = was.ID
		h.requireConnection(t, "seen", s, h.one, 0, seen)
		h.requireConnection(t, "new", s, h.one, 1, fresh)
		after.Provider, after.Name, after.CredentialFields, after.CreatedAt = h.one.Provider, h.one.Name, h.one.CredentialFields, h.one.CreatedAt
		requireIntegration(t, s, after, 10)
	}},
	{"a refresh skips connections that changed, are held by a different integration or are gone", func(t testing.TB, s Stores) {
		h := newIntegrationFixture(t, s, "ann", 1)
		more := addDomain(t, s, h.owner, guid(1), "more.test")
		for _, local := range []string{"a", "b", "c"} {
			h.boxes = append(h.boxes, addMailbox(t, s, h.owner, more, local, mailbox.Ready))
		}
		changed := h.setConnection(t, s, h.one, 0, integration.ConnectionDisconnecting)
		theirs := h.setConnection(t, s, h.two, 1, integration.ConnectionPending)
		former := h.setConnection(t, s, h.two, 2, integration.ConnectionDisconnected)
		held := h.setConnection(t, s, h.two, 3, integration.ConnectionOther)
		gone := h.newConnection(h.one, 0, integration.ConnectionConnected)
		gone.MailboxID = unknownMailboxID
		foreign := gone
		foreign.MailboxID = newIntegrationFixture(t, s, "bob", 2).boxes[0].ID
		stored := h.saveRefresh(t, s, h.one, changed.UpdatedAt.Add(-time.Microsecond), gone, foreign,
			h.newConnection(h.one, 0, integration.ConnectionConnected), h.newConnection(h.one, 1, integration.ConnectionConnected),
			h.newConnection(h.one, 2, integration.ConnectionConnected), h.newConnection(h.one, 3, integration.ConnectionFailed),
			h.newConnection(h.one, 4, integration.ConnectionFailed), h.newConnection(h.one, 4, integration.ConnectionConnected))
		if stored != 2 {
			t.Fatalf("%d were stored", stored)
		}
		h.requireConnection(t, "changed", s, h.one, 0, changed)
		h.requireConnection(t, "held elsewhere, and refused", s, h.one, 1, integration.Connection{})
		h.requireConnection(t, "held elsewhere", s, h.two, 1, theirs)
		h.requireConnection(t, "free elsewhere", s, h.one, 2, h.newConnection(h.one, 2, integration.ConnectionConnected))
		h.requireConnection(t, "free there", s, h.two, 2, former)
		h.requireConnection(t, "failed here", s, h.one, 3, integration.Connection{})
		h.requireConnection(t, "and held there", s, h.two, 3, held)
		h.requireConnection(t, "told twice", s, h.one, 4, h.newConnection(h.one, 4, integration.ConnectionConnected))
	}},
	{"concurrent refreshes and sessions share the mailboxes", func(t testing.TB, s Stores) {
		h := newIntegrationFixture(t, s, "ann", 1)
		for n := range 4 {
			d := addDomain(t, s, h.owner, guid(1), []string{"a.test", "b.test", "c.test", "e.test"}[n])
			for _, local := range []string{"a", "b", "c"} {
				h.boxes = append(h.boxes, addMailbox(t, s, h.owner, d, local, mailbox.Ready))
			}
		}
		var seen []integration.Connection
		for box := range h.boxes {
			seen = append(seen, h.newConnection(h.one, box, integration.ConnectionConnected))
		}
		errs := concurrently(len(h.boxes)+2, func(n int) error {
			if n >= len(h.boxes) {
				_, err := s.SaveRefresh(t.Context(), h.owner, h.one, now, seen, nil)
				return err
			}
			return s.BeginSession(t.Context(), h.owner, newSession(h.two, h.boxes[n], n), connectionID(5000+n), now)
		})
		must(t, "a refresh", errs[len(h.boxes)])
		must(t, "the other refresh", errs[len(h.boxes)+1])
		begun := countWinners(t, errs[:len(h.boxes)], fault.ConnectedElsewhere)
		requireCounts(t, s, h.owner, h.two.ID, integration.Counts{Total: begun, Pending: begun})
		requireCounts(t, s, h.owner, h.one.ID, integration.Counts{Total: len(h.boxes) - begun, Connected: len(h.boxes) - begun})
	}},
}
