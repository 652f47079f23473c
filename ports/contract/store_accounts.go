// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var accountChecks = []storeCheck{
	{"a new account has the limits of its plan", func(t testing.TB, s Stores) {
		for _, p := range access.Plans() {
			a, err := s.CreateAccount(t.Context(), p.Name+"@example.test", p.Name, 0, now)
			must(t, "create", err)
			if a.Plan != p || !a.Active || a.Email != p.Name+"@example.test" || !a.CreatedAt.Equal(now) {
				t.Fatalf("got %+v, want an active account of plan %+v", a, p)
			}
		}
	}},
	{"a new plan replaces the account's own slots", func(t testing.TB, s Stores) {
		for _, tt := range []struct{ created, changed, want int }{{0, 0, 100}, {7, 0, 100}, {7, 9, 9}, {0, 9, 9}} {
			a, err := s.CreateAccount(t.Context(), fmt.Sprintf("slots-%d-%d@example.test", tt.created, tt.changed), "api_starter", tt.created, now)
			must(t, "create", err)
			if a.OwnSlots != tt.created {
				t.Fatalf("%+v: got %+v", tt, a)
			}
			a, err = s.ChangePlan(t.Context(), a.ID, "api_scale", tt.changed)
			must(t, "change plan", err)
			if a.Plan.TenantSlots != tt.want || a.OwnSlots != tt.changed || a.Plan.Name != "api_scale" || !a.Plan.AutomaticDNS || !a.Active {
				t.Fatalf("%+v: got %+v", tt, a)
			}
		}
	}},
	{"slots change without the plan", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for _, slots := range []int{3, 0} {
			a, err := s.ChangePlan(t.Context(), ann, "", slots)
			must(t, "change slots", err)
			if a.Plan.Name != "complete" || a.OwnSlots != slots || a.Plan.TenantSlots != cmp.Or(slots, 100) {
				t.Fatalf("%d slots: got %+v", slots, a)
			}
		}
	}},
	{"a change of plan and a suspension do not affect each other", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		a, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		if a.Active || a.Status() != access.StatusSuspended || a.Plan.Name != "complete" {
			t.Fatalf("suspended: %+v", a)
		}
		a, err = s.ChangePlan(t.Context(), ann, "api_starter", 3)
		must(t, "change plan", err)
		if a.Active {
			t.Fatalf("a new plan ended the suspension: %+v", a)
		}
		a, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		if a.Status() != access.StatusActive || a.Plan.Name != "api_starter" || a.Plan.TenantSlots != 3 {
			t.Fatalf("resumed: %+v", a)
		}
	}},
	{"operators see how many tenants an account holds", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		a, err := s.FindAccount(t.Context(), string(ann))
		must(t, "find", err)
		all, err := s.Accounts(t.Context())
		must(t, "list", err)
		if a.TenantsHeld != 2 || len(all) != 2 || all[0] != a || all[1].ID != bob || all[1].TenantsHeld != 0 {
			t.Fatalf("found %+v, listed %+v", a, all)
		}
	}},
	{"an unknown plan is refused", func(t testing.TB, s Stores) {
		_, err := s.CreateAccount(t.Context(), "ann@example.test", "gold", 0, now)
		requireRefusal(t, "create", err, fault.InvalidRequest)
		ann := newAccount(t, s, "ann")
		_, err = s.ChangePlan(t.Context(), ann, "gold", 0)
		requireRefusal(t, "change plan", err, fault.InvalidRequest)
	}},
	{"of concurrent creations for one address one succeeds", func(t testing.TB, s Stores) {
		spellings := []string{"ann@example.test", "ANN@example.test", " Ann@Example.test "}
		errs := concurrently(9, func(i int) error {
			_, err := s.CreateAccount(t.Context(), spellings[i%3], "complete", 0, now)
			return err
		})
		if n := countWinners(t, errs, fault.InvalidRequest); n != 1 {
			t.Fatalf("%d accounts were made", n)
		}
	}},
	{"an account is found by id and by address", func(t testing.TB, s Stores) {
		id := newAccount(t, s, "ann")
		newAccount(t, s, "bob")
		for _, by := range []string{string(id), "ann@example.test", "Ann@Example.Test"} {
			a, err := s.FindAccount(t.Context(), by)
			must(t, "find "+by, err)
			if a.ID != id {
				t.Fatalf("%s finds %s, want %s", by, a.ID, id)
			}
		}
		for _, by := range []string{"", "nobody@example.test", "no id", "10000000-0000-4000-8000-000000000000"} {
			_, err := s.FindAccount(t.Context(), by)
			requireRefusal(t, "find "+by, err, fault.AccountNotFound)
		}
	}},
	{"accounts are listed oldest first", func(t testing.TB, s Stores) {
		for i, name := range []string{"second", "first", "third"} {
			age := map[string]time.Duration{"first": -time.Hour, "second": 0, "third": time.Hour}[name]
			_, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", i+1, now.Add(age))
			must(t, "create", err)
		}
		all, err := s.Accounts(t.Context())
		must(t, "list", err)
		if len(all) != 3 || all[0].Email != "first@example.test" || all[2].Email != "third@example.test" {
			t.Fatalf("got %+v", all)
		}
	}},
	{"an unknown account gets neither plan nor key, and cannot be closed", func(t testing.TB, s Stores) {
		for _, id := range []access.AccountID{"10000000-0000-4000-8000-000000000000", "nonsense", ""} {
			_, err := s.ChangePlan(t.Context(), id, "complete", 0)
			requireRefusal(t, "change plan", err, fault.AccountNotFound)
			_, err = s.SetActive(t.Context(), id, false)
			requireRefusal(t, "suspend", err, fault.AccountNotFound)
			_, err = s.CloseAccount(t.Context(), id, now)
			requireRefusal(t, "close", err, fault.AccountNotFound)
			requireRefusal(t, "add key", s.AddKey(t.Context(), apiKey(id, 1)), fault.AccountNotFound)
		}
	}},
}

func closeAccount(t testing.TB, s Stores, id access.AccountID) ports.Closing {
	t.Helper()
	done, err := s.CloseAccount(t.Context(), id, now)
	must(t, "close", err)
	return done
}

var closingChecks = []storeCheck{
	{"closing revokes the keys and frees the tenants", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		one, two := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		bobs := newKey(t, s, bob, 3)
		attachTenant(t, s, ann, 1)
		assignTenant(t, s, ann, 2)
		attachTenant(t, s, bob, 3)
		addDomain(t, s, ann, guid(1), "contoso.test")
		_, err := s.RevokeKey(t.Context(), two.ID, now)
		must(t, "revoke", err)

		done := closeAccount(t, s, ann)
		if done.KeysRevoked != 1 || done.TenantsReleased != 2 || !done.At.Equal(now) {
			t.Fatalf("got %+v", done)
		}
		_, err = s.Caller(t.Context(), one.Hash)
		requireRefusal(t, "a key", err, fault.InvalidAPIKey)
		held, err := s.Tenants(t.Context(), ann)
		must(t, "tenants", err)
		if len(held) != 0 {
			t.Fatalf("still held: %+v", held)
		}
		_, err = s.Caller(t.Context(), bobs.Hash)
		must(t, "another account's key", err)
		_, err = s.Tenant(t.Context(), bob, guid(3))
		must(t, "another account's tenant", err)
		attachTenant(t, s, bob, 1)
		attachTenant(t, s, bob, 2)
	}},
	{"a closed account can only be read", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		k := newKey(t, s, ann, 1)
		closeAccount(t, s, ann)
		for _, by := range []string{string(ann), "Ann@example.test"} {
			a, err := s.FindAccount(t.Context(), by)
			must(t, "find", err)
			if a.ID != ann || a.Status() != access.StatusClosed || !a.ClosedAt.Equal(now) || a.Email != "ann@example.test" || a.Active {
				t.Fatalf("by %s: %+v", by, a)
			}
		}
		_, err := s.ChangePlan(t.Context(), ann, "complete", 0)
		requireRefusal(t, "change plan", err, fault.AccountClosed)
		_, err = s.SetActive(t.Context(), ann, true)
		requireRefusal(t, "resume", err, fault.AccountClosed)
		requireRefusal(t, "add key", s.AddKey(t.Context(), apiKey(ann, 2)), fault.AccountClosed)
		_, err = s.ReplaceKey(t.Context(), k.ID, apiKey(ann, 3))
		requireRefusal(t, "replace key", err, fault.KeyRevoked)
		for _, managed := range []bool{true, false} {
			_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: managed, ConsentedAt: now}, 100)
			requireRefusal(t, "attach", err, fault.AccountClosed)
		}
		a, err := s.Account(t.Context(), ann)
		must(t, "load", err)
		requireRefusal(t, "entitled", a.Entitled(), fault.NoAPIPlan)
	}},
	{"a connect link expires with its account", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		f := ports.ConnectFlow{StateHash: [32]byte{1}, Account: ann, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Hour)}
		must(t, "start flow", s.StartFlow(t.Context(), f))
		closeAccount(t, s, ann)
		_, err := s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		requireRefusal(t, "take", err, fault.ConnectLinkInvalid)
	}},
	{"the address of a closed account is free, and finds the open one", func(t testing.TB, s Stores) {
		find := func() access.AccountID {
			a, err := s.FindAccount(t.Context(), "ann@example.test")
			must(t, "find", err)
			return a.ID
		}
		first := newAccount(t, s, "ann")
		closeAccount(t, s, first)
		second := newAccount(t, s, "ann")
		if got := find(); got != second {
			t.Fatalf("found %s, want the open %s", got, second)
		}
		_, err := s.CloseAccount(t.Context(), second, now.Add(time.Hour))
		must(t, "close", err)
		if got := find(); got != second {
			t.Fatalf("found %s, want %s, which was closed last", got, second)
		}
	}},
	{"the enforcement events are deleted with their account", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for day := range 3 {
			recordEvents(t, s, ann, newEvent(2*day, 1, now.Add(-time.Duration(day)*30*time.Hour)), newEvent(2*day+1, 2, now))
			recordEvents(t, s, bob, newEvent(day, 3, now.Add(-time.Duration(day)*30*time.Hour)))
		}
		none := func(what string) {
			t.Helper()
			closeAccount(t, s, ann)
			if page := listEvents(t, s, ann, ports.EventQuery{Limit: 9}); page.Total != 0 || len(page.Events) != 0 {
				t.Fatalf("%s: %+v", what, page)
			}
		}
		none("closed")
		recordEvents(t, s, ann, newEvent(1, 1, now)) // left over from an interrupted closing
		none("closed again")
		if page := listEvents(t, s, bob, ports.EventQuery{Limit: 9}); page.Total != 3 || len(page.Events) != 3 {
			t.Fatalf("another account's: %+v", page)
		}
	}},
	{"closing again changes nothing", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		newKey(t, s, ann, 1)
		closeAccount(t, s, ann)
		again, err := s.CloseAccount(t.Context(), ann, now.Add(time.Hour))
		must(t, "close again", err)
		if again.KeysRevoked != 0 || again.TenantsReleased != 0 || !again.At.Equal(now) {
			t.Fatalf("got %+v", again)
		}
	}},
	{"nothing can be added to an account while it is being closed", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := concurrently(24, func(i int) error {
			switch {
			case i == 12:
				_, err := s.CloseAccount(t.Context(), ann, now)
				return err
			case i%3 == 0:
				return s.RotateKey(t.Context(), ann, old.ID, apiKey(ann, 100+i))
			case i%3 == 1:
				return s.AddKey(t.Context(), apiKey(ann, 100+i))
			default:
				_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(i), ConsentedAt: now}, 100)
				return err
			}
		})
		must(t, "close", errs[12])
		keys, err := s.IssuedKeys(t.Context(), ann)
		must(t, "keys", err)
		for _, k := range keys {
			if k.Status() != access.StatusRevoked {
				t.Fatalf("a key lives: %+v", k)
			}
		}
		held, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if held != 0 {
			t.Fatalf("%d tenants are held", held)
		}
	}},
}

func apiKey(owner access.AccountID, n int) access.Key {
	return access.Key{
		ID: fmt.Sprintf("20000000-0000-4000-8000-%012d", n), Account: owner, Hash: [32]byte{byte(n), 0, 'k'},
		Form: access.Live, Hint: "abcd", Name: "laptop", CreatedAt: now,
	}
}

func newKey(t testing.TB, s Stores, owner access.AccountID, n int) access.Key {
	t.Helper()
	k := apiKey(owner, n)
	must(t, "add key", s.AddKey(t.Context(), k))
	return k
}

var keyChecks = []storeCheck{
	{"a key finds the current state of its account", func(t testing.TB, s Stores) {
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
		requireRefusal(t, "caller", err, fault.InvalidAPIKey)
		_, err = s.Account(t.Context(), "nonsense")
		requireRefusal(t, "account", err, fault.AccountNotFound)
	}},
	{"a rotated key is invalid and its successor is valid", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		renamed := apiKey(ann, 2)
		renamed.Name = "another"
		must(t, "rotate", s.RotateKey(t.Context(), ann, old.ID, renamed))
		_, err := s.Caller(t.Context(), old.Hash)
		requireRefusal(t, "old key", err, fault.InvalidAPIKey)
		c, err := s.Caller(t.Context(), apiKey(ann, 2).Hash)
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
	{"of concurrent rotations exactly one succeeds", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error { return s.RotateKey(t.Context(), ann, old.ID, apiKey(ann, i+2)) })
		if n := countWinners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d rotations won", n)
		}
		for i, lost := range errs {
			_, err := s.Caller(t.Context(), apiKey(ann, i+2).Hash)
			if (lost == nil) != (err == nil) {
				t.Fatalf("rotation %d ended with %v, its key with %v", i, lost, err)
			}
		}
	}},
	{"a different account cannot rotate a key", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		k := newKey(t, s, ann, 1)
		requireRefusal(t, "rotate", s.RotateKey(t.Context(), bob, k.ID, apiKey(bob, 2)), fault.InvalidAPIKey)
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

var issuedKeyChecks = []storeCheck{
	{"keys are listed oldest first, of one account or of all", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n, owner := range []access.AccountID{ann, bob, ann} {
			k := apiKey(owner, n+1)
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
			requireRefusal(t, "find", err, fault.KeyNotFound)
			_, err = s.RevokeKey(t.Context(), id, now)
			requireRefusal(t, "revoke", err, fault.KeyNotFound)
			_, err = s.ReplaceKey(t.Context(), id, apiKey("", 2))
			requireRefusal(t, "replace", err, fault.KeyNotFound)
		}
	}},
	{"a revoked key is invalid, and its time of revocation stays", func(t testing.TB, s Stores) {
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
		requireRefusal(t, "the key", err, fault.InvalidAPIKey)
		_, err = s.Caller(t.Context(), other.Hash)
		must(t, "the other key", err)
		requireRefusal(t, "rotate", s.RotateKey(t.Context(), ann, k.ID, apiKey(ann, 3)), fault.InvalidAPIKey)
	}},
	{"a replaced key is invalid, and its successor has its name and account", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old, fresh := newKey(t, s, ann, 1), apiKey("", 2)
		fresh.Name = "nobody's"
		got, err := s.ReplaceKey(t.Context(), old.ID, fresh)
		must(t, "replace", err)
		if got.ID != fresh.ID || got.Account != ann || got.Name != old.Name {
			t.Fatalf("got %+v", got)
		}
		_, err = s.Caller(t.Context(), old.Hash)
		requireRefusal(t, "the old key", err, fault.InvalidAPIKey)
		c, err := s.Caller(t.Context(), fresh.Hash)
		must(t, "the new key", err)
		if c.Account.ID != ann {
			t.Fatalf("the new key belongs to %s", c.Account.ID)
		}
		_, err = s.ReplaceKey(t.Context(), old.ID, apiKey("", 3))
		requireRefusal(t, "replace again", err, fault.KeyRevoked)
	}},
	{"of concurrent rotations and replacements exactly one succeeds", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error {
			if i%2 == 0 {
				return s.RotateKey(t.Context(), ann, old.ID, apiKey(ann, i+2))
			}
			_, err := s.ReplaceKey(t.Context(), old.ID, apiKey("", i+2))
			if errors.Is(err, fault.KeyRevoked) {
				return fault.InvalidAPIKey
			}
			return err
		})
		if n := countWinners(t, errs, fault.InvalidAPIKey); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
}
