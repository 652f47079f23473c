// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

func key(owner access.AccountID, n int) access.Key {
	return access.Key{
		ID: fmt.Sprintf("20000000-0000-4000-8000-%012d", n), Account: owner, Hash: [32]byte{byte(n), 0, 'k'},
		Form: access.Live, Hint: "abcd", Name: "laptop", CreatedAt: now,
	}
}

func newKey(t testing.TB, s Stores, owner access.AccountID, n int) access.Key {
	t.Helper()
	k := key(owner, n)
	must(t, "add key", s.AddKey(t.Context(), k))
	return k
}

var keyChecks = []storeCheck{
	{"a key finds its account as it is now", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		k := newKey(t, s, ann, 1)
		newKey(t, s, bob, 2)
		_, err := s.ChangePlan(t.Context(), ann, "api_starter", 3)
		must(t, "change plan", err)
		_, err = s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		c, err := s.Caller(t.Context(), k.Hash)
		must(t, "caller", err)
		want := access.Plan{Name: "api_starter", TenantSlots: 3}
		if c.Account.ID != ann || c.KeyID != k.ID || c.Account.Active || c.Account.Plan != want || c.Account.Email != "ann@example.test" {
			t.Fatalf("got %+v", c)
		}
		a, err := s.Account(t.Context(), ann)
		must(t, "account", err)
		if a != c.Account {
			t.Fatalf("the account is %+v, the caller's %+v", a, c.Account)
		}
	}},
	{"an unknown key and account are refused", func(t testing.TB, s Stores) {
		newKey(t, s, newAccount(t, s, "ann"), 1)
		_, err := s.Caller(t.Context(), [32]byte{9})
		refused(t, "caller", err, fault.InvalidAPIKey)
		_, err = s.Account(t.Context(), "nonsense")
		refused(t, "account", err, fault.AccountNotFound)
	}},
	{"a rotated key is dead and its successor lives", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		renamed := key(ann, 2)
		renamed.Name = "another"
		must(t, "rotate", s.RotateKey(t.Context(), ann, old.ID, renamed))
		_, err := s.Caller(t.Context(), old.Hash)
		refused(t, "old key", err, fault.InvalidAPIKey)
		c, err := s.Caller(t.Context(), key(ann, 2).Hash)
		must(t, "new key", err)
		if c.Account.ID != ann {
			t.Fatalf("the new key belongs to %s", c.Account.ID)
		}
		fresh, err := s.IssuedKey(t.Context(), c.KeyID)
		must(t, "find", err)
		if fresh.Name != old.Name {
			t.Fatalf("the new key is named %q", fresh.Name)
		}
	}},
	{"of several rotations at once one wins", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := atOnce(crowd, func(i int) error { return s.RotateKey(t.Context(), ann, old.ID, key(ann, i+2)) })
		if n := winners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d rotations won", n)
		}
		for i, lost := range errs {
			_, err := s.Caller(t.Context(), key(ann, i+2).Hash)
			if (lost == nil) != (err == nil) {
				t.Fatalf("rotation %d ended with %v, its key with %v", i, lost, err)
			}
		}
	}},
	{"another account cannot rotate a key", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		k := newKey(t, s, ann, 1)
		refused(t, "rotate", s.RotateKey(t.Context(), bob, k.ID, key(bob, 2)), fault.InvalidAPIKey)
		_, err := s.Caller(t.Context(), k.Hash)
		must(t, "the key afterwards", err)
	}},
	{"a member belongs to one account", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for _, tt := range []struct {
			owner access.AccountID
			email string
			want  bool
		}{
			{ann, "ann@example.test", true},
			{ann, "ANN@example.test", true},
			{bob, "ann@example.test", false},
			{ann, "", false},
			{"nonsense", "ann@example.test", false},
		} {
			got, err := s.Member(t.Context(), tt.owner, tt.email)
			must(t, "member", err)
			if got != tt.want {
				t.Fatalf("%q of %q: got %v", tt.email, tt.owner, got)
			}
		}
	}},
}
