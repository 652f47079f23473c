// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

func apiKey(owner access.AccountID, n int) access.Key {
	return access.Key{
		ID: fmt.Sprintf("20000000-0000-4000-8000-%012d", n), Account: owner, Hash: [32]byte{byte(n), 0, 'k'},
		Form: access.Live, Hint: "abcd", Name: "laptop", CreatedAt: now, Bounds: access.Unbounded(),
	}
}

func newKey(t testing.TB, s *Store, owner access.AccountID, n int) access.Key {
	t.Helper()
	key := apiKey(owner, n)
	must(t, "add key", s.AddKey(t.Context(), key))
	return key
}

func TestKeyFindsCurrentStateOfItsAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		key := newKey(t, s, ann, 1)
		newKey(t, s, bob, 2)
		_, err := s.ChangePlan(t.Context(), ann, "api_starter", 3)
		must(t, "change plan", err)
		_, err = s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		caller, err := s.Caller(t.Context(), key.Hash)
		must(t, "caller", err)
		want := access.Plan{Name: "api_starter", TenantSlots: 3}
		if caller.Account.ID != ann || caller.KeyID != key.ID || caller.Account.Active || caller.Account.Plan != want || caller.Account.Email != "ann@example.test" {
			t.Fatalf("the caller is %+v, want the suspended account with the plan %+v", caller, want)
		}
		account, err := s.Account(t.Context(), ann)
		must(t, "account", err)
		if account != caller.Account {
			t.Fatalf("the account is %+v, want the account of the caller %+v", account, caller.Account)
		}
	})
}

func TestUnknownKeyAndAccountAreRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		newKey(t, s, newAccount(t, s, "ann"), 1)
		_, err := s.Caller(t.Context(), [32]byte{9})
		requireRefusal(t, "caller", err, fault.InvalidAPIKey)
		_, err = s.Account(t.Context(), "nonsense")
		requireRefusal(t, "account", err, fault.AccountNotFound)
	})
}

func TestRotatedKeyIsInvalidAndItsSuccessorIsValid(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		oldKey := newKey(t, s, ann, 1)
		successor := apiKey(ann, 2)
		successor.Name = "a different name"
		must(t, "rotate", s.RotateKey(t.Context(), ann, oldKey.ID, successor))
		_, err := s.Caller(t.Context(), oldKey.Hash)
		requireRefusal(t, "old key", err, fault.InvalidAPIKey)
		caller, err := s.Caller(t.Context(), successor.Hash)
		must(t, "new key", err)
		if caller.Account.ID != ann {
			t.Fatalf("the new key belongs to %s, want %s", caller.Account.ID, ann)
		}
		stored, err := s.IssuedKey(t.Context(), caller.KeyID)
		must(t, "find", err)
		if stored.Name != oldKey.Name {
			t.Fatalf("the new key is named %q, want %q", stored.Name, oldKey.Name)
		}
	})
}

func TestOneOfConcurrentKeyRotationsSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		oldKey := newKey(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error { return s.RotateKey(t.Context(), ann, oldKey.ID, apiKey(ann, i+2)) })
		if n := countWinners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d rotations succeeded, want 1", n)
		}
		for i, rotateErr := range errs {
			_, err := s.Caller(t.Context(), apiKey(ann, i+2).Hash)
			if (rotateErr == nil) != (err == nil) {
				t.Fatalf("rotation %d returned %v, and the check of its new key returned %v: want both nil or both errors", i, rotateErr, err)
			}
		}
	})
}

func TestDifferentAccountCannotRotateKey(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		key := newKey(t, s, ann, 1)
		requireRefusal(t, "rotate", s.RotateKey(t.Context(), bob, key.ID, apiKey(bob, 2)), fault.InvalidAPIKey)
		_, err := s.Caller(t.Context(), key.Hash)
		must(t, "the key after the refused rotation", err)
	})
}

func TestMemberBelongsToOneAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for _, tc := range []struct {
			owner      access.AccountID
			email      string
			wantMember bool
		}{
			{ann, "ann@example.test", true},
			{ann, "ANN@example.test", true},
			{bob, "ann@example.test", false},
			{ann, "", false},
			{"nonsense", "ann@example.test", false},
		} {
			got, err := s.Member(t.Context(), tc.owner, tc.email)
			must(t, "member", err)
			if got != tc.wantMember {
				t.Fatalf("%q is a member of %q: got %v, want %v", tc.email, tc.owner, got, tc.wantMember)
			}
		}
	})
}

func TestKeysAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n, owner := range []access.AccountID{ann, bob, ann} {
			key := apiKey(owner, n+1)
			key.CreatedAt = now.Add(-time.Duration(n) * time.Hour)
			must(t, "add", s.AddKey(t.Context(), key))
		}
		// The texts are the last digits of the ids of the keys. The empty account lists all keys.
		for owner, want := range map[access.AccountID]string{ann: "31", bob: "2", "": "321", "10000000-0000-4000-8000-000000000000": ""} {
			keys, err := s.IssuedKeys(t.Context(), owner)
			must(t, "list", err)
			got := ""
			for _, key := range keys {
				got += key.ID[len(key.ID)-1:]
			}
			if got != want {
				t.Fatalf("keys of %q: got %s, want %s", owner, got, want)
			}
		}
	})
}

func TestKeyIsFoundAsItWasStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		key := newKey(t, s, newAccount(t, s, "ann"), 1)
		got, err := s.IssuedKey(t.Context(), key.ID)
		must(t, "find", err)
		key.CreatedBy = s.operator
		if diff := cmp.Diff(key, got); diff != "" || got.Status() != access.StatusActive {
			t.Fatalf("the key has the status %s (-want +got):\n%s", got.Status(), diff)
		}
		for _, id := range []string{"", "nonsense", "20000000-0000-4000-8000-000000000009"} {
			_, err := s.IssuedKey(t.Context(), id)
			requireRefusal(t, "find", err, fault.KeyNotFound)
			_, err = s.RevokeKey(t.Context(), id, now)
			requireRefusal(t, "revoke", err, fault.KeyNotFound)
			_, err = s.ReplaceKey(t.Context(), id, apiKey("", 2))
			requireRefusal(t, "replace", err, fault.KeyNotFound)
		}
	})
}

func TestRevokedKeyIsInvalidAndKeepsItsTimeOfRevocation(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key, unrevokedKey := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		for _, at := range []time.Time{now, now.Add(time.Hour)} {
			got, err := s.RevokeKey(t.Context(), key.ID, at)
			must(t, "revoke", err)
			if got.ID != key.ID || got.Account != ann || !got.RevokedAt.Equal(now) || got.Status() != access.StatusRevoked {
				t.Fatalf("the key revoked at %s is %+v, want one that was revoked at %s", at, got, now)
			}
		}
		_, err := s.Caller(t.Context(), key.Hash)
		requireRefusal(t, "the revoked key", err, fault.InvalidAPIKey)
		_, err = s.Caller(t.Context(), unrevokedKey.Hash)
		must(t, "the unrevoked key", err)
		requireRefusal(t, "rotate", s.RotateKey(t.Context(), ann, key.ID, apiKey(ann, 3)), fault.InvalidAPIKey)
	})
}

func TestReplacedKeyIsInvalidAndItsSuccessorHasItsNameAndAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		oldKey, successor := newKey(t, s, ann, 1), apiKey("", 2)
		successor.Name = "nobody's"
		got, err := s.ReplaceKey(t.Context(), oldKey.ID, successor)
		must(t, "replace", err)
		if got.ID != successor.ID || got.Account != ann || got.Name != oldKey.Name {
			t.Fatalf("the successor is %+v, want the name and the account of the replaced key", got)
		}
		_, err = s.Caller(t.Context(), oldKey.Hash)
		requireRefusal(t, "the old key", err, fault.InvalidAPIKey)
		caller, err := s.Caller(t.Context(), successor.Hash)
		must(t, "the new key", err)
		if caller.Account.ID != ann {
			t.Fatalf("the new key belongs to %s, want %s", caller.Account.ID, ann)
		}
		_, err = s.ReplaceKey(t.Context(), oldKey.ID, apiKey("", 3))
		requireRefusal(t, "replace again", err, fault.KeyRevoked)
	})
}

func TestOneOfConcurrentKeyRotationsAndReplacementsSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		oldKey := newKey(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error {
			if i%2 == 0 {
				return s.RotateKey(t.Context(), ann, oldKey.ID, apiKey(ann, i+2))
			}
			_, err := s.ReplaceKey(t.Context(), oldKey.ID, apiKey("", i+2))
			if errors.Is(err, fault.KeyRevoked) {
				return fault.InvalidAPIKey
			}
			return err
		})
		if n := countWinners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d rotations and replacements succeeded, want 1", n)
		}
	})
}

// TestLastUseOfKeyOnlyMovesForward checks that an earlier use, which a different process stores
// late, does not replace the stored use.
func TestLastUseOfKeyOnlyMovesForward(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		used, unused := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		newestUse := now.Add(5 * time.Minute)
		must(t, "save nothing", s.SaveKeyUses(t.Context(), nil))
		for _, at := range []time.Time{now, newestUse, now.Add(time.Minute)} {
			must(t, "save", s.SaveKeyUses(t.Context(), map[string]time.Time{used.ID: at}))
		}
		for _, owner := range []access.AccountID{ann, ""} {
			keys, err := s.IssuedKeys(t.Context(), owner)
			must(t, "list", err)
			for _, key := range keys {
				want := map[string]time.Time{used.ID: newestUse, unused.ID: {}}[key.ID]
				if !key.LastUsedAt.Equal(want) {
					t.Errorf("key %s was last used at %v, want %v", key.ID, key.LastUsedAt, want)
				}
			}
		}
	})
}
