// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

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
		attach(t, s, ann, 1)
		assign(t, s, ann, 2)
		attach(t, s, bob, 3)
		addDomain(t, s, ann, guid(1), "contoso.test")
		_, err := s.RevokeKey(t.Context(), two.ID, now)
		must(t, "revoke", err)

		done := closeAccount(t, s, ann)
		if done.KeysRevoked != 1 || done.TenantsReleased != 2 || !done.At.Equal(now) {
			t.Fatalf("got %+v", done)
		}
		_, err = s.Caller(t.Context(), one.Hash)
		refused(t, "a key", err, fault.InvalidAPIKey)
		held, err := s.Tenants(t.Context(), ann)
		must(t, "tenants", err)
		if len(held) != 0 {
			t.Fatalf("still held: %+v", held)
		}
		_, err = s.Caller(t.Context(), bobs.Hash)
		must(t, "another account's key", err)
		_, err = s.Tenant(t.Context(), bob, guid(3))
		must(t, "another account's tenant", err)
		attach(t, s, bob, 1)
		attach(t, s, bob, 2)
	}},
	{"a closed account stays to be looked at, and that is all", func(t testing.TB, s Stores) {
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
		refused(t, "change plan", err, fault.AccountClosed)
		_, err = s.SetActive(t.Context(), ann, true)
		refused(t, "resume", err, fault.AccountClosed)
		refused(t, "add key", s.AddKey(t.Context(), key(ann, 2)), fault.AccountClosed)
		_, err = s.ReplaceKey(t.Context(), k.ID, key(ann, 3))
		refused(t, "replace key", err, fault.KeyRevoked)
		for _, managed := range []bool{true, false} {
			_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: managed, ConsentedAt: now}, 100)
			refused(t, "attach", err, fault.AccountClosed)
		}
		a, err := s.Account(t.Context(), ann)
		must(t, "load", err)
		refused(t, "entitled", a.Entitled(), fault.NoAPIPlan)
	}},
	{"a link to connect ends with its account", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		f := ports.ConnectFlow{StateHash: [32]byte{1}, Account: ann, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Hour)}
		must(t, "start flow", s.StartFlow(t.Context(), f))
		closeAccount(t, s, ann)
		_, err := s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		refused(t, "take", err, fault.ConnectLinkInvalid)
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
	{"the log of enforcement ends with its account", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for day := range 3 {
			recordEvents(t, s, ann, anEvent(2*day, 1, now.Add(-time.Duration(day)*30*time.Hour)), anEvent(2*day+1, 2, now))
			recordEvents(t, s, bob, anEvent(day, 3, now.Add(-time.Duration(day)*30*time.Hour)))
		}
		none := func(what string) {
			t.Helper()
			closeAccount(t, s, ann)
			if page := eventPage(t, s, ann, ports.EventQuery{Limit: 9}); page.Total != 0 || len(page.Events) != 0 {
				t.Fatalf("%s: %+v", what, page)
			}
		}
		none("closed")
		recordEvents(t, s, ann, anEvent(1, 1, now)) // left by a closing that was interrupted
		none("closed again")
		if page := eventPage(t, s, bob, ports.EventQuery{Limit: 9}); page.Total != 3 || len(page.Events) != 3 {
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
	{"nothing slips into an account while it is closed", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old := newKey(t, s, ann, 1)
		errs := atOnce(24, func(i int) error {
			switch {
			case i == 12:
				_, err := s.CloseAccount(t.Context(), ann, now)
				return err
			case i%3 == 0:
				return s.RotateKey(t.Context(), ann, old.ID, key(ann, 100+i))
			case i%3 == 1:
				return s.AddKey(t.Context(), key(ann, 100+i))
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
