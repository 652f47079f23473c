// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

var issuedKeyChecks = []storeCheck{
	{"keys are listed oldest first, of one account or of all", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n, owner := range []access.AccountID{ann, bob, ann} {
			k := key(owner, n+1)
			k.CreatedAt = now.Add(-time.Duration(n) * time.Hour)
			must(t, "add", s.AddKey(t.Context(), k))
		}
		for owner, want := range map[access.AccountID]string{ann: "31", bob: "2", "": "321", "10000000-0000-4000-8000-000000000000": ""} {
			keys, err := s.IssuedKeys(t.Context(), owner)
			must(t, "list", err)
			got := ""
			for _, k := range keys {
				got += k.ID[len(k.ID)-1:]
			}
			if got != want {
				t.Fatalf("keys of %q: got %s, want %s", owner, got, want)
			}
		}
	}},
	{"a key is found as it was stored", func(t testing.TB, s Stores) {
		k := newKey(t, s, newAccount(t, s, "ann"), 1)
		got, err := s.IssuedKey(t.Context(), k.ID)
		must(t, "find", err)
		if got != k || got.Status() != access.StatusActive {
			t.Fatalf("got %+v, want %+v", got, k)
		}
		for _, id := range []string{"", "nonsense", "20000000-0000-4000-8000-000000000009"} {
			_, err := s.IssuedKey(t.Context(), id)
			refused(t, "find", err, fault.KeyNotFound)
			_, err = s.RevokeKey(t.Context(), id, now)
			refused(t, "revoke", err, fault.KeyNotFound)
			_, err = s.ReplaceKey(t.Context(), id, key("", 2))
			refused(t, "replace", err, fault.KeyNotFound)
		}
	}},
	{"a revoked key is dead, once", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		k, other := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		for _, at := range []time.Time{now, now.Add(time.Hour)} {
			got, err := s.RevokeKey(t.Context(), k.ID, at)
			must(t, "revoke", err)
			if got.ID != k.ID || got.Account != ann || !got.RevokedAt.Equal(now) || got.Status() != access.StatusRevoked {
				t.Fatalf("at %s: %+v", at, got)
			}
		}
		_, err := s.Caller(t.Context(), k.Hash)
		refused(t, "the key", err, fault.InvalidAPIKey)
		_, err = s.Caller(t.Context(), other.Hash)
		must(t, "the other key", err)
		refused(t, "rotate", s.RotateKey(t.Context(), ann, k.ID, key(ann, 3)), fault.InvalidAPIKey)
	}},
	{"a replaced key is dead, and its successor has its name and account", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old, fresh := newKey(t, s, ann, 1), key("", 2)
		fresh.Name = "nobody's"
		got, err := s.ReplaceKey(t.Context(), old.ID, fresh)
		must(t, "replace", err)
		if got.ID != fresh.ID || got.Account != ann || got.Name != old.Name {
			t.Fatalf("got %+v", got)
		}
		_, err = s.Caller(t.Context(), old.Hash)
		refused(t, "the old key", err, fault.InvalidAPIKey)
		c, err := s.Caller(t.Context(), fresh.Hash)
		must(t, "the new key", err)
		if c.Account.ID != ann {
			t.Fatalf("the new key belongs to %s", c.Account.ID)
		}
		_, err = s.ReplaceKey(t.Context(), old.ID, key("", 3))
		refused(t, "replace again", err, fault.KeyRevoked)
	}},
	{"of a rotation and a replacement at once one wins", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := atOnce(crowd, func(i int) error {
			if i%2 == 0 {
				return s.RotateKey(t.Context(), ann, old.ID, key(ann, i+2))
			}
			_, err := s.ReplaceKey(t.Context(), old.ID, key("", i+2))
			if errors.Is(err, fault.KeyRevoked) {
				return fault.InvalidAPIKey
			}
			return err
		})
		if n := winners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
}
