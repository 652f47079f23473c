// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
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

// credentialOf returns the credential of the nth integration.
func credentialOf(n int) []byte { return []byte{0, byte(n), 255} }

func addIntegration(t testing.TB, s *Store, owner access.AccountID, n int) integration.Integration {
	t.Helper()
	i := newIntegration(owner, n)
	must(t, "add integration", s.AddIntegration(t.Context(), i, credentialOf(n), nil))
	return i
}

func requireIntegrations(t testing.TB, s *Store, owner access.AccountID, want ...integration.Integration) {
	t.Helper()
	got, err := s.Integrations(t.Context(), owner)
	must(t, "list integrations", err)
	if len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
		t.Fatalf("the integrations of the account %s (-want +got):\n%s", owner, cmp.Diff(want, got))
	}
}

// requireIntegration checks a stored integration, and that its credential is credentialOf(n).
func requireIntegration(t testing.TB, s *Store, want integration.Integration, n int) {
	t.Helper()
	got, credential, err := s.Integration(t.Context(), want.AccountID, want.ID)
	must(t, "find integration", err)
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(credential, credentialOf(n)) {
		t.Fatalf("the credential is %v, want %v; the integration (-want +got):\n%s", credential, credentialOf(n), diff)
	}
}

// withAllFieldsChanged returns an integration with the same ids and a different value in every
// other stored field.
func withAllFieldsChanged(i integration.Integration) integration.Integration {
	at := now.Add(time.Hour)
	return integration.Integration{
		ID: i.ID, AccountID: i.AccountID, Provider: "other", Name: "other", Workspace: integration.Workspace{ID: "x", Name: "y"},
		Status: integration.Failed, HasError: true, CredentialFields: []string{"other"}, LastTestedAt: at, RefreshedAt: at.Add(time.Minute),
		CreatedAt: at, UpdatedAt: at.Add(time.Second),
	}
}

func TestIntegrationIsStoredWithItsCredential(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		requireIntegration(t, s, addIntegration(t, s, ann, 1), 1)
		full := withAllFieldsChanged(newIntegration(ann, 2))
		must(t, "add", s.AddIntegration(t.Context(), full, credentialOf(2), nil))
		requireIntegration(t, s, full, 2)
	})
}

func TestIntegrationsAreListedNewestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		requireIntegrations(t, s, ann)
		annsNewest, annsOldest, bobs := addIntegration(t, s, ann, 3), addIntegration(t, s, ann, 1), addIntegration(t, s, bob, 2)
		requireIntegrations(t, s, ann, annsNewest, annsOldest)
		requireIntegrations(t, s, bob, bobs)
	})
}

func TestSaveIntegrationChangesOnlyResultOfTest(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want, notSaved := addIntegration(t, s, ann, 1), addIntegration(t, s, ann, 2)
		saved := withAllFieldsChanged(want)
		must(t, "save", s.SaveIntegration(t.Context(), saved, nil))
		want.Status, want.HasError, want.Workspace = saved.Status, saved.HasError, saved.Workspace
		want.LastTestedAt, want.RefreshedAt, want.UpdatedAt = saved.LastTestedAt, saved.RefreshedAt, saved.UpdatedAt
		requireIntegration(t, s, want, 1)
		requireIntegration(t, s, notSaved, 2)
	})
}

func TestOlderObservationOfIntegrationIsIgnored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		loaded := addIntegration(t, s, ann, 1)
		minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
		withWorkspaceName := func(name string, began int, i integration.Integration) integration.Integration {
			i.Workspace.Name, i.Observed.Workspace = name, minute(began)
			return i
		}

		rejected := withWorkspaceName("new", 3, loaded.AfterRejection(minute(3)))
		rejected.LastTestedAt, rejected.UpdatedAt = minute(4), minute(4)
		must(t, "save the test", s.SaveIntegration(t.Context(), rejected, nil))
		refreshed := withWorkspaceName("old", 2, loaded.AfterSuccess(minute(2)))
		refreshed.RefreshedAt, refreshed.UpdatedAt = minute(5), minute(5)
		_, err := s.SaveRefresh(t.Context(), ann, refreshed, minute(1), nil, nil)
		must(t, "save a refresh that began before the test", err)
		want := rejected
		want.RefreshedAt, want.UpdatedAt, want.Observed = minute(5), minute(5), integration.Observed{}
		requireIntegration(t, s, want, 1)

		olderTest := withWorkspaceName("old", 1, loaded.AfterSuccess(minute(1)))
		olderTest.LastTestedAt, olderTest.UpdatedAt = minute(2), minute(2)
		must(t, "save an older test", s.SaveIntegration(t.Context(), olderTest, nil))
		requireIntegration(t, s, want, 1)

		must(t, "save a newer call", s.SaveIntegration(t.Context(), loaded.AfterSuccess(minute(6)), nil))
		want.Status, want.HasError = integration.Connected, false
		requireIntegration(t, s, want, 1)
	})
}

func TestRemovingIntegrationFreesItsMailboxes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.integration1, 0, 1)
		fixture.setConnection(t, s, fixture.integration1, 1, integration.ConnectionConnected)
		must(t, "remove", s.RemoveIntegration(t.Context(), fixture.owner, fixture.integration1.ID, nil))
		requireIntegrations(t, s, fixture.owner, fixture.integration2)
		_, _, err := s.Integration(t.Context(), fixture.owner, fixture.integration1.ID)
		requireRefusal(t, "find", err, fault.IntegrationNotFound)
		_, err = s.Session(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID, sessionID(1))
		requireRefusal(t, "session", err, fault.SessionNotFound)
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{})
		fixture.beginSession(t, s, fixture.integration2, 0, 2)
		fixture.beginSession(t, s, fixture.integration2, 1, 3)
		requireRefusal(t, "remove again", s.RemoveIntegration(t.Context(), fixture.owner, fixture.integration1.ID, nil), fault.IntegrationNotFound)
		requireRefusal(t, "save", s.SaveIntegration(t.Context(), fixture.integration1, nil), fault.IntegrationNotFound)
	})
}

func TestForeignAndUnknownIntegrationsGetSameAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		i := addIntegration(t, s, ann, 1)
		for label, call := range map[string]func(id string) error{
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
			requireRefusal(t, label, call(i.ID), fault.IntegrationNotFound)
			requireSameError(t, label, call(i.ID), call(integrationID(9)))
			requireSameError(t, label+" by a malformed id", call(i.ID), call("x"))
		}
		requireIntegration(t, s, i, 1)
	})
}

func TestIntegrationNeedsOpenAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		requireRefusal(t, "add to a closed account", s.AddIntegration(t.Context(), newIntegration(ann, 1), credentialOf(1), nil), fault.AccountClosed)
		unknown := newIntegration("10000000-0000-4000-8000-000000000000", 1)
		requireRefusal(t, "add to an unknown account", s.AddIntegration(t.Context(), unknown, credentialOf(1), nil), fault.AccountNotFound)
		requireIntegrations(t, s, ann)
	})
}

func TestClosingAccountRemovesOnlyItsOwnIntegrations(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		ann.beginSession(t, s, ann.integration1, 0, 1)
		bob.beginSession(t, s, bob.integration1, 0, 2)
		if closing := closeAccount(t, s, ann.owner); closing.IntegrationsRemoved != 2 {
			t.Fatalf("the closing is %+v, want 2 removed integrations", closing)
		}
		requireIntegrations(t, s, ann.owner)
		_, _, err := s.Integration(t.Context(), ann.owner, ann.integration1.ID)
		requireRefusal(t, "find", err, fault.IntegrationNotFound)
		requireIntegrations(t, s, bob.owner, bob.integration2, bob.integration1)
		pending, err := s.PendingSessions(t.Context(), now.Add(1000*time.Hour), 9)
		must(t, "sessions", err)
		if len(pending) != 1 || pending[0].Account != bob.owner {
			t.Fatalf("the pending sessions are %+v, want one of %s", pending, bob.owner)
		}
	})
}

func TestIntegrationAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, ann, 2)
		requireCommitted(t, s, ann, map[string]func(storedAnswer *ports.StoredAnswer) error{
			"add": func(storedAnswer *ports.StoredAnswer) error {
				return s.AddIntegration(t.Context(), newIntegration(ann, 3), credentialOf(3), storedAnswer)
			},
			"save": func(storedAnswer *ports.StoredAnswer) error {
				return s.SaveIntegration(t.Context(), withAllFieldsChanged(newIntegration(ann, 1)), storedAnswer)
			},
			"remove": func(storedAnswer *ports.StoredAnswer) error {
				return s.RemoveIntegration(t.Context(), ann, integrationID(2), storedAnswer)
			},
			"refresh": func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.SaveRefresh(t.Context(), ann, withAllFieldsChanged(newIntegration(ann, 1)), now, nil, storedAnswer)
				return err
			},
		}, func() {
			requireIntegrations(t, s, ann, newIntegration(ann, 2), newIntegration(ann, 1))
		})
	})
}

// requireCommitted checks changes that store an answer for an Idempotency-Key. If a different
// attempt has taken the key over, a change must fail and store nothing. The function unchanged
// checks that nothing is stored. If the attempt still holds the key, the change must also store the
// answer.
func requireCommitted(t testing.TB, s *Store, owner access.AccountID, changes map[string]func(storedAnswer *ports.StoredAnswer) error, unchanged func()) {
	t.Helper()
	key := byte(0)
	for label, change := range changes {
		key++
		claim := newClaim(owner, key)
		claim.Lease = expiredLease
		expiredAttempt := mustClaim(t, s, claim)
		_, isClaimed, err := s.TakeOver(t.Context(), expiredAttempt, claim)
		must(t, "take over", err)
		if !isClaimed {
			t.Fatal("the key of an attempt whose lease had expired was not taken over")
		}
		requireRefusal(t, label, change(newStoredAnswer(claim, expiredAttempt)), fault.KeyInProgress)
		unchanged()
	}
	for label, change := range changes {
		key++
		claim := newClaim(owner, key)
		must(t, label, change(newStoredAnswer(claim, mustClaim(t, s, claim))))
		if record := requireRecord(t, s, claim.Key); string(record.Answer) != "answer" || record.Leased {
			t.Fatalf("%s: the record of the key is %+v, want the answer and no lease", label, record)
		}
	}
}
