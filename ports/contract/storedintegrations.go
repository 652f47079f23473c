// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

func integrationID(n int) string { return fmt.Sprintf("50000000-0000-7000-8000-%012d", n) }

// anIntegration is the nth one, added n seconds after now.
func anIntegration(owner access.AccountID, n int) integration.Integration {
	at := now.Add(time.Duration(n) * time.Second)
	return integration.Integration{
		ID: integrationID(n), AccountID: owner, Provider: "instantly", Name: hostile, Workspace: integration.Workspace{ID: "w", Name: hostile},
		Status: integration.Connected, Given: []string{"api_key", hostile}, LastTestedAt: at, CreatedAt: at, UpdatedAt: at,
	}
}

func credentialOf(n int) []byte { return []byte{0, byte(n), 255} }

func addIntegration(t testing.TB, s Stores, owner access.AccountID, n int) integration.Integration {
	t.Helper()
	i := anIntegration(owner, n)
	must(t, "add integration", s.AddIntegration(t.Context(), i, credentialOf(n)))
	return i
}

// integrated checks the list of an account's integrations.
func integrated(t testing.TB, s Stores, owner access.AccountID, want ...integration.Integration) {
	t.Helper()
	got, err := s.Integrations(t.Context(), owner)
	must(t, "list integrations", err)
	if len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
		t.Fatalf("the integrations of %q (-want +got):\n%s", owner, cmp.Diff(want, got))
	}
}

// kept checks an integration and that its credential is the nth one's.
func kept(t testing.TB, s Stores, want integration.Integration, n int) {
	t.Helper()
	got, credential, err := s.Integration(t.Context(), want.AccountID, want.ID)
	must(t, "find integration", err)
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(credential, credentialOf(n)) {
		t.Fatalf("credential %v, (-want +got):\n%s", credential, diff)
	}
}

// retested is an integration with another value in every field.
func retested(i integration.Integration) integration.Integration {
	at := now.Add(time.Hour)
	return integration.Integration{
		ID: i.ID, AccountID: i.AccountID, Provider: "other", Name: "other", Workspace: integration.Workspace{ID: "x", Name: "y"},
		Status: integration.Failed, HasError: true, Given: []string{"other"}, LastTestedAt: at, RefreshedAt: at.Add(time.Minute),
		CreatedAt: at, UpdatedAt: at.Add(time.Second),
	}
}

var integrationChecks = []storeCheck{
	{"an integration is kept with its credential", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		kept(t, s, addIntegration(t, s, ann, 1), 1)
		full := retested(anIntegration(ann, 2))
		must(t, "add", s.AddIntegration(t.Context(), full, credentialOf(2)))
		kept(t, s, full, 2)
	}},
	{"integrations are listed newest first, an account's alone", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		integrated(t, s, ann)
		third, first, bobs := addIntegration(t, s, ann, 3), addIntegration(t, s, ann, 1), addIntegration(t, s, bob, 2)
		integrated(t, s, ann, third, first)
		integrated(t, s, bob, bobs)
	}},
	{"saving changes what a test finds out, and nothing else", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want, other := addIntegration(t, s, ann, 1), addIntegration(t, s, ann, 2)
		saved := retested(want)
		must(t, "save", s.SaveIntegration(t.Context(), saved))
		want.Status, want.HasError, want.Workspace = saved.Status, saved.HasError, saved.Workspace
		want.LastTestedAt, want.RefreshedAt, want.UpdatedAt = saved.LastTestedAt, saved.RefreshedAt, saved.UpdatedAt
		kept(t, s, want, 1)
		kept(t, s, other, 2)
	}},
	{"a removed integration is gone with all that hangs on it, and its mailboxes are free", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		h.begin(t, s, h.one, 0, 1)
		h.connect(t, s, h.one, 1, integration.ConnectionConnected)
		must(t, "remove", s.RemoveIntegration(t.Context(), h.owner, h.one.ID))
		integrated(t, s, h.owner, h.two)
		_, _, err := s.Integration(t.Context(), h.owner, h.one.ID)
		refused(t, "find", err, fault.IntegrationNotFound)
		_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, sessionID(1))
		refused(t, "session", err, fault.SessionNotFound)
		counted(t, s, h.owner, h.one.ID, integration.Counts{})
		h.begin(t, s, h.two, 0, 2)
		h.begin(t, s, h.two, 1, 3)
		refused(t, "remove again", s.RemoveIntegration(t.Context(), h.owner, h.one.ID), fault.IntegrationNotFound)
		refused(t, "save", s.SaveIntegration(t.Context(), h.one), fault.IntegrationNotFound)
	}},
	{"foreign and unknown integrations are one answer", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		i := addIntegration(t, s, ann, 1)
		for what, call := range map[string]func(id string) error{
			"find": func(id string) error {
				_, _, err := s.Integration(t.Context(), bob, id)
				return err
			},
			"save": func(id string) error {
				foreign := retested(i)
				foreign.AccountID, foreign.ID = bob, id
				return s.SaveIntegration(t.Context(), foreign)
			},
			"remove": func(id string) error { return s.RemoveIntegration(t.Context(), bob, id) },
			"eligible": func(id string) error {
				_, err := s.Eligible(t.Context(), bob, id)
				return err
			},
			"refresh": func(id string) error {
				foreign := retested(i)
				foreign.ID = id
				_, err := s.SaveRefresh(t.Context(), bob, foreign, now, nil)
				return err
			},
		} {
			refused(t, what, call(i.ID), fault.IntegrationNotFound)
			same(t, what, call(i.ID), call(integrationID(9)))
			same(t, what+" by nonsense", call(i.ID), call("x"))
		}
		kept(t, s, i, 1)
	}},
	{"no account, no integration", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		refused(t, "a closed one", s.AddIntegration(t.Context(), anIntegration(ann, 1), credentialOf(1)), fault.AccountClosed)
		unknown := anIntegration("10000000-0000-4000-8000-000000000000", 1)
		refused(t, "an unknown one", s.AddIntegration(t.Context(), unknown, credentialOf(1)), fault.AccountNotFound)
		integrated(t, s, ann)
	}},
	{"closing an account removes its integrations, and nobody else's", func(t testing.TB, s Stores) {
		ann, bob := newSending(t, s, "ann", 1), newSending(t, s, "bob", 2)
		ann.begin(t, s, ann.one, 0, 1)
		bob.begin(t, s, bob.one, 0, 2)
		if done := closeAccount(t, s, ann.owner); done.IntegrationsRemoved != 2 {
			t.Fatalf("got %+v", done)
		}
		integrated(t, s, ann.owner)
		_, _, err := s.Integration(t.Context(), ann.owner, ann.one.ID)
		refused(t, "find", err, fault.IntegrationNotFound)
		integrated(t, s, bob.owner, bob.two, bob.one)
		over, err := s.PendingSessions(t.Context(), now.Add(1000*time.Hour), 9)
		must(t, "sessions", err)
		if len(over) != 1 || over[0].Account != bob.owner {
			t.Fatalf("sessions are left: %+v", over)
		}
	}},
	{"integrations commit the answer that tells of them, or are refused with it", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, ann, 2)
		committed(t, s, ann, map[string]func(ctx context.Context) error{
			"add":    func(ctx context.Context) error { return s.AddIntegration(ctx, anIntegration(ann, 3), credentialOf(3)) },
			"save":   func(ctx context.Context) error { return s.SaveIntegration(ctx, retested(anIntegration(ann, 1))) },
			"remove": func(ctx context.Context) error { return s.RemoveIntegration(ctx, ann, integrationID(2)) },
			"refresh": func(ctx context.Context) error {
				_, err := s.SaveRefresh(ctx, ann, retested(anIntegration(ann, 1)), now, nil)
				return err
			},
		}, func() {
			integrated(t, s, ann, anIntegration(ann, 2), anIntegration(ann, 1))
		})
	}},
}

// committed checks that each change stores nothing when another attempt has its
// key, which unchanged finds, and its answer when the key is its own.
func committed(t testing.TB, s Stores, owner access.AccountID, changes map[string]func(ctx context.Context) error, unchanged func()) {
	t.Helper()
	key := byte(0)
	for what, change := range changes {
		key++
		c := claimOf(owner, key)
		c.Lease = over
		lost := claimed(t, s, c)
		_, won, err := s.TakeOver(t.Context(), lost, c)
		must(t, "take over", err)
		if !won {
			t.Fatal("a dead owner's key was not taken over")
		}
		refused(t, what, change(completing(t, c, lost)), fault.KeyInProgress)
		unchanged()
	}
	for what, change := range changes {
		key++
		c := claimOf(owner, key)
		must(t, what, change(completing(t, c, claimed(t, s, c))))
		if r := remembered(t, s, c.Place); string(r.Answer) != "answer" || r.Leased {
			t.Fatalf("%s: %+v", what, r)
		}
	}
}
