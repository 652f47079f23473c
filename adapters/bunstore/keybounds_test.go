// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
)

// exampleBounds returns bounds with a value in every field.
func exampleBounds(t testing.TB) access.Bounds {
	t.Helper()
	b, err := access.NewBounds([]string{"tenants:read", "domains:*"}, []string{string(guid(1)), string(guid(2))},
		[]string{"192.0.2.0/24", "2001:db8::/32"}, new(now.Add(time.Hour)), now)
	must(t, "bounds", err)
	return b
}

// equalPrefix compares networks for package cmp, which cannot read their unexported fields.
func equalPrefix(a, b netip.Prefix) bool { return a == b }

func TestKeyIsFoundWithItsBounds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key := apiKey(ann, 1)
		key.Bounds, key.CreatedBy = exampleBounds(t), "20000000-0000-4000-8000-000000000077"
		must(t, "issue", s.IssueKey(t.Context(), key, nil))
		caller, err := s.Caller(t.Context(), key.Hash)
		must(t, "caller", err)
		if diff := cmp.Diff(key.Bounds, caller.Bounds, cmp.Comparer(equalPrefix)); diff != "" || caller.KeyName != key.Name || !caller.SecretUntil.IsZero() {
			t.Fatalf("the caller is %+v; its bounds (-want +got):\n%s", caller, diff)
		}
		got, err := s.AccountKey(t.Context(), ann, key.ID)
		must(t, "find", err)
		if diff := cmp.Diff(key, got, cmp.Comparer(equalPrefix)); diff != "" {
			t.Fatalf("the key (-want +got):\n%s", diff)
		}
	})
}

// TestKeyOfEarlierReleaseHasNoBounds deletes the row with the bounds, because earlier releases do
// not write it.
func TestKeyOfEarlierReleaseHasNoBounds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		key := newKey(t, s, newAccount(t, s, "ann"), 1)
		_, err := s.db.NewDelete().Model((*keyBoundsRow)(nil)).Where("key_id = ?", key.ID).Exec(t.Context())
		must(t, "delete bounds", err)
		caller, err := s.Caller(t.Context(), key.Hash)
		must(t, "caller", err)
		if diff := cmp.Diff(access.Unbounded(), caller.Bounds); diff != "" {
			t.Fatalf("the bounds of the key (-want +got):\n%s", diff)
		}
		must(t, "rotate", s.RotateKey(t.Context(), key.Account, key.ID, apiKey(key.Account, 2)))
		caller, err = s.Caller(t.Context(), apiKey(key.Account, 2).Hash)
		must(t, "caller", err)
		if diff := cmp.Diff(access.Unbounded(), caller.Bounds); diff != "" {
			t.Fatalf("the bounds of the key that replaced it (-want +got):\n%s", diff)
		}
	})
}

// TestDamagedBoundsPermitNothing checks that a request with a key fails if the stored bounds of the
// key cannot be read. The key must not become a key without bounds.
func TestDamagedBoundsPermitNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		key := newKey(t, s, newAccount(t, s, "ann"), 1)
		_, err := s.db.NewUpdate().Model((*keyBoundsRow)(nil)).Set("networks = 'everywhere'").Where("key_id = ?", key.ID).Exec(t.Context())
		must(t, "damage bounds", err)
		if caller, err := s.Caller(t.Context(), key.Hash); err == nil || caller.KeyID != "" {
			t.Fatalf("a key with damaged bounds: got the caller %+v, %v, want an error", caller, err)
		}
	})
}

func TestReplacedKeysKeepTheirBounds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key := apiKey(ann, 1)
		key.Bounds = exampleBounds(t)
		must(t, "issue", s.IssueKey(t.Context(), key, nil))
		must(t, "rotate", s.RotateKey(t.Context(), ann, key.ID, apiKey(ann, 2)))
		replaced, err := s.ReplaceKey(t.Context(), apiKey(ann, 2).ID, apiKey("", 3))
		must(t, "replace", err)
		caller, err := s.Caller(t.Context(), apiKey(ann, 3).Hash)
		must(t, "caller", err)
		for _, got := range []access.Bounds{replaced.Bounds, caller.Bounds} {
			if diff := cmp.Diff(key.Bounds, got, cmp.Comparer(equalPrefix)); diff != "" {
				t.Errorf("the bounds (-want +got):\n%s", diff)
			}
		}
	})
}

func TestKeysArePagedNewestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := range 5 {
			newKey(t, s, ann, n+1)
		}
		newKey(t, s, bob, 9)
		got, query := "", page.Query{Limit: 2}
		for pageNumber := 1; ; pageNumber++ {
			keys, err := s.KeyPage(t.Context(), ann, query)
			must(t, "list", err)
			for _, key := range keys.Entries {
				got += key.ID[len(key.ID)-1:] // the number of the key
			}
			got += " "
			if query.After = keys.Next; query.After == "" {
				break
			}
			if pageNumber == 3 {
				t.Fatalf("more pages follow the pages %q, want 3 pages", got)
			}
		}
		if want := "54 32 1 "; got != want {
			t.Fatalf("the pages are %q, want %q", got, want)
		}
	})
}

// secretHash returns the hash of the nth new secret of a key.
func secretHash(n byte) [32]byte { return [32]byte{n, 1, 's'} }

// renewedKey returns the key with its nth new secret, which is created at a time.
func renewedKey(key access.Key, n byte, at time.Time) access.Key {
	key.Hash, key.Form, key.Hint, key.CreatedAt = secretHash(n), access.Live, "efgh", at
	return key
}

func TestRenewedKeyHasBothSecretsUntilTheOverlapEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key := apiKey(ann, 1)
		key.Form = access.Trial
		must(t, "add key", s.AddKey(t.Context(), key))
		until := now.Add(24 * time.Hour)
		must(t, "renew", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 1, now), until, nil))
		oldCaller, err := s.Caller(t.Context(), key.Hash)
		must(t, "old secret", err)
		newCaller, err := s.Caller(t.Context(), secretHash(1))
		must(t, "new secret", err)
		if oldCaller.KeyID != key.ID || newCaller.KeyID != key.ID || !oldCaller.SecretUntil.Equal(until) || !newCaller.SecretUntil.IsZero() {
			t.Fatalf("the caller with the old secret is %+v and with the new secret %+v, want the same key, and only the old secret with an expiry", oldCaller, newCaller)
		}
		stored, err := s.AccountKey(t.Context(), ann, key.ID)
		must(t, "find", err)
		if stored.Hint != "efgh" || stored.Form != access.Live || stored.Name != key.Name || !stored.CreatedAt.Equal(key.CreatedAt) {
			t.Fatalf("the key is %+v, want the new hint and form, and the old name and creation", stored)
		}
	})
}

// TestRenewalShortensEarlierOverlaps checks that a renewal with a shorter overlap also applies to
// earlier secrets of the key. After a renewal without overlap, only the new secret must be valid.
func TestRenewalShortensEarlierOverlaps(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key, otherKey := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		must(t, "renew the other key", s.RenewKeySecret(t.Context(), ann, otherKey.ID, renewedKey(otherKey, 9, now), now.Add(72*time.Hour), nil))
		must(t, "renew", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 1, now), now.Add(72*time.Hour), nil))
		must(t, "renew again", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 2, now), now.Add(time.Hour), nil))
		must(t, "renew with a longer overlap", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 4, now), now.Add(72*time.Hour), nil))
		firstCaller, err := s.Caller(t.Context(), key.Hash)
		must(t, "first secret", err)
		if !firstCaller.SecretUntil.Equal(now.Add(time.Hour)) {
			t.Fatalf("the first secret is valid until %s, want %s", firstCaller.SecretUntil, now.Add(time.Hour))
		}
		must(t, "renew without overlap", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 3, now.Add(time.Minute)), now.Add(time.Minute), nil))
		for _, hash := range [][32]byte{key.Hash, secretHash(1), secretHash(2), secretHash(4)} {
			caller, err := s.Caller(t.Context(), hash)
			must(t, "an old secret", err)
			if caller.KeyID != key.ID || !caller.SecretUntil.Equal(longPast) {
				t.Errorf("the caller with an old secret is %+v, want the key, whose secret expired long ago", caller)
			}
		}
		for _, hash := range [][32]byte{secretHash(3), secretHash(9), otherKey.Hash} {
			_, err := s.Caller(t.Context(), hash)
			must(t, "a valid secret", err)
		}
	})
}

func TestRevocationEndsAllSecrets(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		key := newKey(t, s, ann, 1)
		must(t, "renew", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 1, now), now.Add(time.Hour), nil))
		requireRefusal(t, "revoke the key of a different account", s.RevokeOwnKey(t.Context(), bob, key.ID, now, nil), fault.KeyRevoked)
		must(t, "revoke", s.RevokeOwnKey(t.Context(), ann, key.ID, now, nil))
		for _, hash := range [][32]byte{key.Hash, secretHash(1)} {
			_, err := s.Caller(t.Context(), hash)
			requireRefusal(t, "a secret", err, fault.InvalidAPIKey)
		}
		requireRefusal(t, "revoke again", s.RevokeOwnKey(t.Context(), ann, key.ID, now, nil), fault.KeyRevoked)
		requireRefusal(t, "renew", s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, 2, now), now, nil), fault.KeyRevoked)
		stored, err := s.AccountKey(t.Context(), ann, key.ID)
		must(t, "find", err)
		if !stored.RevokedAt.Equal(now) {
			t.Fatalf("the key was revoked at %s, want %s", stored.RevokedAt, now)
		}
	})
}

func TestKeyOfDifferentAccountIsUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		key := newKey(t, s, ann, 1)
		for _, id := range []string{key.ID, strings.ToUpper(key.ID), "nonsense", ""} {
			_, err := s.AccountKey(t.Context(), bob, id)
			requireRefusal(t, "find the key "+id, err, fault.KeyNotFound)
		}
		requireRefusal(t, "renew", s.RenewKeySecret(t.Context(), bob, key.ID, renewedKey(key, 1, now), now, nil), fault.KeyRevoked)
	})
}

// TestConcurrentRenewalsLeaveOneCurrentSecret checks that exactly one secret of the key has no
// expiry.
func TestConcurrentRenewalsLeaveOneCurrentSecret(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key := newKey(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error {
			return s.RenewKeySecret(t.Context(), ann, key.ID, renewedKey(key, byte(i+1), now), now.Add(time.Hour), nil)
		})
		currentCount := 0
		for i, err := range errs {
			must(t, "renew", err)
			caller, err := s.Caller(t.Context(), secretHash(byte(i+1)))
			must(t, "caller", err)
			if caller.SecretUntil.IsZero() {
				currentCount++
			}
		}
		if currentCount != 1 {
			t.Fatalf("%d secrets have no expiry, want 1", currentCount)
		}
	})
}
