// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestNewAccountHasLimitsOfItsPlan(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		for _, p := range access.Plans() {
			account, err := s.CreateAccount(t.Context(), p.Name+"@example.test", p.Name, 0, now)
			must(t, "create", err)
			if account.Plan != p || !account.Active || account.Email != p.Name+"@example.test" || !account.CreatedAt.Equal(now) {
				t.Fatalf("got %+v, want an active account of plan %+v", account, p)
			}
		}
	})
}

func TestNewPlanReplacesAccountsOwnSlots(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		for _, tc := range []struct{ slotsAtCreation, slotsAtChange, wantSlots int }{{0, 0, 100}, {7, 0, 100}, {7, 9, 9}, {0, 9, 9}} {
			account, err := s.CreateAccount(t.Context(), fmt.Sprintf("slots-%d-%d@example.test", tc.slotsAtCreation, tc.slotsAtChange), "api_starter", tc.slotsAtCreation, now)
			must(t, "create", err)
			if account.OwnSlots != tc.slotsAtCreation {
				t.Fatalf("%+v: the new account has %d own slots, want %d", tc, account.OwnSlots, tc.slotsAtCreation)
			}
			account, err = s.ChangePlan(t.Context(), account.ID, "api_scale", tc.slotsAtChange)
			must(t, "change plan", err)
			if account.Plan.TenantSlots != tc.wantSlots || account.OwnSlots != tc.slotsAtChange || account.Plan.Name != "api_scale" || !account.Plan.AutomaticDNS || !account.Active {
				t.Fatalf("after the change of the plan the account is %+v, want it active with the plan api_scale: %+v", account, tc)
			}
		}
	})
}

func TestSlotsCanBeChangedWhilePlanStays(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for _, slots := range []int{3, 0} {
			account, err := s.ChangePlan(t.Context(), ann, "", slots)
			must(t, "change slots", err)
			if account.Plan.Name != "complete" || account.OwnSlots != slots || account.Plan.TenantSlots != cmp.Or(slots, 100) {
				t.Fatalf("got %+v, want the plan complete with %d own slots", account, slots)
			}
		}
	})
}

func TestChangeOfPlanAndSuspensionDoNotAffectEachOther(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		account, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		if account.Active || account.Status() != access.StatusSuspended || account.Plan.Name != "complete" {
			t.Fatalf("the account is %+v, want it suspended with the plan complete", account)
		}
		account, err = s.ChangePlan(t.Context(), ann, "api_starter", 3)
		must(t, "change plan", err)
		if account.Active {
			t.Fatalf("after the change of the plan the account is %+v, want it suspended", account)
		}
		account, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		if account.Status() != access.StatusActive || account.Plan.Name != "api_starter" || account.Plan.TenantSlots != 3 {
			t.Fatalf("the account is %+v, want it active with 3 slots of the plan api_starter", account)
		}
	})
}

func TestOperatorsSeeHowManyTenantsAccountHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		account, err := s.FindAccount(t.Context(), string(ann))
		must(t, "find", err)
		accounts, err := s.Accounts(t.Context())
		must(t, "list", err)
		if account.TenantCount != 2 || len(accounts) != 2 || accounts[0] != account || accounts[1].ID != bob || accounts[1].TenantCount != 0 {
			t.Fatalf("found %+v, listed %+v; want 2 tenants of ann and none of bob", account, accounts)
		}
	})
}

func TestUnknownPlanIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		_, err := s.CreateAccount(t.Context(), "ann@example.test", "gold", 0, now)
		requireRefusal(t, "create", err, fault.InvalidRequest)
		ann := newAccount(t, s, "ann")
		_, err = s.ChangePlan(t.Context(), ann, "gold", 0)
		requireRefusal(t, "change plan", err, fault.InvalidRequest)
	})
}

func TestConcurrentCreationsForOneAddressMakeOneAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		spellings := []string{"ann@example.test", "ANN@example.test", " Ann@Example.test "}
		errs := concurrently(3*len(spellings), func(i int) error {
			_, err := s.CreateAccount(t.Context(), spellings[i%len(spellings)], "complete", 0, now)
			return err
		})
		if n := countWinners(t, errs, fault.InvalidRequest); n != 1 {
			t.Fatalf("%d accounts were created, want 1", n)
		}
	})
}

func TestAccountIsFoundByIdAndByAddress(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		id := newAccount(t, s, "ann")
		newAccount(t, s, "bob")
		for _, idOrAddress := range []string{string(id), "ann@example.test", "Ann@Example.Test"} {
			account, err := s.FindAccount(t.Context(), idOrAddress)
			must(t, "find "+idOrAddress, err)
			if account.ID != id {
				t.Fatalf("found by %s: got %s, want %s", idOrAddress, account.ID, id)
			}
		}
		for _, idOrAddress := range []string{"", "nobody@example.test", "no id", "10000000-0000-4000-8000-000000000000"} {
			_, err := s.FindAccount(t.Context(), idOrAddress)
			requireRefusal(t, "find "+idOrAddress, err, fault.AccountNotFound)
		}
	})
}

func TestAccountsAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		for _, name := range []string{"second", "first", "third"} {
			createdAfter := map[string]time.Duration{"first": -time.Hour, "second": 0, "third": time.Hour}[name]
			_, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, now.Add(createdAfter))
			must(t, "create", err)
		}
		accounts, err := s.Accounts(t.Context())
		must(t, "list", err)
		if len(accounts) != 3 || accounts[0].Email != "first@example.test" || accounts[2].Email != "third@example.test" {
			t.Fatalf("got %+v, want first, second and third", accounts)
		}
	})
}

func TestUnknownAccountGetsNeitherPlanNorKeyAndCannotBeClosed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		for _, id := range []access.AccountID{"10000000-0000-4000-8000-000000000000", "nonsense", ""} {
			_, err := s.ChangePlan(t.Context(), id, "complete", 0)
			requireRefusal(t, "change plan", err, fault.AccountNotFound)
			_, err = s.SetActive(t.Context(), id, false)
			requireRefusal(t, "suspend", err, fault.AccountNotFound)
			_, err = s.CloseAccount(t.Context(), id, now)
			requireRefusal(t, "close", err, fault.AccountNotFound)
			requireRefusal(t, "add key", s.AddKey(t.Context(), apiKey(id, 1)), fault.AccountNotFound)
		}
	})
}

func closeAccount(t testing.TB, s *Store, id access.AccountID) ports.Closing {
	t.Helper()
	closing, err := s.CloseAccount(t.Context(), id, now)
	must(t, "close", err)
	return closing
}

func TestClosingAccountRevokesKeysAndReleasesTenants(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		firstKey, secondKey := newKey(t, s, ann, 1), newKey(t, s, ann, 2)
		bobKey := newKey(t, s, bob, 3)
		attachTenant(t, s, ann, 1)
		assignTenant(t, s, ann, 2)
		attachTenant(t, s, bob, 3)
		addDomain(t, s, ann, guid(1), "contoso.test")
		_, err := s.RevokeKey(t.Context(), secondKey.ID, now)
		must(t, "revoke", err)

		closing := closeAccount(t, s, ann)
		if closing.KeysRevoked != 1 || closing.TenantsReleased != 2 || !closing.At.Equal(now) {
			t.Fatalf("got %+v, want 1 revoked key and 2 released tenants", closing)
		}
		_, err = s.Caller(t.Context(), firstKey.Hash)
		requireRefusal(t, "key of the closed account", err, fault.InvalidAPIKey)
		tenants, err := s.Tenants(t.Context(), ann)
		must(t, "tenants", err)
		if len(tenants) != 0 {
			t.Fatalf("the closed account holds the tenants %+v, want none", tenants)
		}
		_, err = s.Caller(t.Context(), bobKey.Hash)
		must(t, "bob's key", err)
		_, err = s.Tenant(t.Context(), bob, guid(3))
		must(t, "bob's tenant", err)
		attachTenant(t, s, bob, 1)
		attachTenant(t, s, bob, 2)
	})
}

func TestClosedAccountCanOnlyBeRead(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		key := newKey(t, s, ann, 1)
		closeAccount(t, s, ann)
		for _, idOrAddress := range []string{string(ann), "Ann@example.test"} {
			account, err := s.FindAccount(t.Context(), idOrAddress)
			must(t, "find", err)
			if account.ID != ann || account.Status() != access.StatusClosed || !account.ClosedAt.Equal(now) || account.Email != "ann@example.test" || account.Active {
				t.Fatalf("%s finds %+v, want the closed account", idOrAddress, account)
			}
		}
		_, err := s.ChangePlan(t.Context(), ann, "complete", 0)
		requireRefusal(t, "change plan", err, fault.AccountClosed)
		_, err = s.SetActive(t.Context(), ann, true)
		requireRefusal(t, "resume", err, fault.AccountClosed)
		requireRefusal(t, "add key", s.AddKey(t.Context(), apiKey(ann, 2)), fault.AccountClosed)
		_, err = s.ReplaceKey(t.Context(), key.ID, apiKey(ann, 3))
		requireRefusal(t, "replace key", err, fault.KeyRevoked)
		for _, managed := range []bool{true, false} {
			_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: managed, ConsentedAt: now})
			requireRefusal(t, "attach", err, fault.AccountClosed)
		}
		account, err := s.Account(t.Context(), ann)
		must(t, "load", err)
		requireRefusal(t, "check active", account.CheckActive(), fault.NoAPIPlan)
	})
}

func TestClosingAccountInvalidatesItsConnectLinks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		flow := ports.ConnectFlow{StateHash: [32]byte{1}, Account: ann, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Hour)}
		must(t, "start flow", s.StartConnectSession(t.Context(), tenant.ConnectSession{ID: newID(), ExpiresAt: flow.ExpiresAt}, flow))
		closeAccount(t, s, ann)
		_, err := s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		requireRefusal(t, "take", err, fault.ConnectLinkInvalid)
		_, _, err = s.ConnectSessionOfLink(t.Context(), flow.StateHash)
		requireRefusal(t, "session", err, fault.ConnectSessionUnknown)
	})
}

func TestAddressOfClosedAccountIsFreeAndFindsOpenAccountFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		find := func() access.AccountID {
			account, err := s.FindAccount(t.Context(), "ann@example.test")
			must(t, "find", err)
			return account.ID
		}
		firstAccount := newAccount(t, s, "ann")
		closeAccount(t, s, firstAccount)
		secondAccount := newAccount(t, s, "ann")
		if got := find(); got != secondAccount {
			t.Fatalf("found %s, want the open account %s", got, secondAccount)
		}
		_, err := s.CloseAccount(t.Context(), secondAccount, now.Add(time.Hour))
		must(t, "close", err)
		if got := find(); got != secondAccount {
			t.Fatalf("found %s, want %s, which was closed last", got, secondAccount)
		}
	})
}

func TestClosingAccountDeletesItsEnforcementEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for day := range 3 {
			storeEvents(t, s, ann, newEvent(2*day, 1, now.Add(-time.Duration(day)*30*time.Hour)), newEvent(2*day+1, 2, now))
			storeEvents(t, s, bob, newEvent(day, 3, now.Add(-time.Duration(day)*30*time.Hour)))
		}
		closeAndRequireNoEvents := func(label string) {
			t.Helper()
			closeAccount(t, s, ann)
			if page := listEvents(t, s, ann, ports.EventQuery{Limit: 9}); page.Total != 0 || len(page.Events) != 0 {
				t.Fatalf("%s: got the events %+v, want none", label, page)
			}
		}
		closeAndRequireNoEvents("closed")
		storeEvents(t, s, ann, newEvent(1, 1, now)) // an event that an interrupted closing did not delete
		closeAndRequireNoEvents("closed again")
		if page := listEvents(t, s, bob, ports.EventQuery{Limit: 9}); page.Total != 3 || len(page.Events) != 3 {
			t.Fatalf("bob's account has the events %+v, want 3", page)
		}
	})
}

// TestFailureAfterClosingReturnsTheClosing checks that the result of a failed CloseAccount shows
// whether the account is closed. CloseAccount fails because the test renames a table that it uses.
func TestFailureAfterClosingReturnsTheClosing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		newKey(t, s, ann, 1)
		closeWithout := func(table string) (ports.Closing, error) {
			t.Helper()
			_, err := s.db.DB.ExecContext(t.Context(), "ALTER TABLE "+table+" RENAME TO renamed")
			must(t, "rename", err)
			closing, closeErr := s.CloseAccount(t.Context(), ann, now)
			_, err = s.db.DB.ExecContext(t.Context(), "ALTER TABLE renamed RENAME TO "+table)
			must(t, "rename back", err)
			return closing, closeErr
		}
		if closing, err := closeWithout("closed_accounts"); err == nil || closing != (ports.Closing{}) {
			t.Fatalf("failure before the commit: got %+v, %v, want no result and an error", closing, err)
		}
		if closing, err := closeWithout("enforcement_counts"); err == nil || !closing.At.Equal(now) || closing.KeysRevoked != 1 {
			t.Fatalf("failure after the commit: got %+v, %v, want the closing and an error", closing, err)
		}
		if closing, err := closeWithout("enforcement_counts"); err == nil || !closing.At.Equal(now) || closing.KeysRevoked != 0 {
			t.Fatalf("failure for a closed account: got %+v, %v, want the time of the first closing and an error", closing, err)
		}
	})
}

func TestClosingAccountAgainChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		newKey(t, s, ann, 1)
		closeAccount(t, s, ann)
		secondClosing, err := s.CloseAccount(t.Context(), ann, now.Add(time.Hour))
		must(t, "close again", err)
		if secondClosing.KeysRevoked != 0 || secondClosing.TenantsReleased != 0 || !secondClosing.At.Equal(now) {
			t.Fatalf("the second closing is %+v, want the time of the first and no change", secondClosing)
		}
	})
}

func TestNothingCanBeAddedToAccountThatIsBeingClosed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		existingKey := newKey(t, s, ann, 1)
		const calls, closingCall = 24, 12
		errs := concurrently(calls, func(i int) error {
			switch {
			case i == closingCall:
				_, err := s.CloseAccount(t.Context(), ann, now)
				return err
			case i%3 == 0:
				return s.RotateKey(t.Context(), ann, existingKey.ID, apiKey(ann, 100+i))
			case i%3 == 1:
				return s.AddKey(t.Context(), apiKey(ann, 100+i))
			default:
				_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(i), ConsentedAt: now})
				return err
			}
		})
		must(t, "close", errs[closingCall])
		keys, err := s.IssuedKeys(t.Context(), ann)
		must(t, "keys", err)
		for _, k := range keys {
			if k.Status() != access.StatusRevoked {
				t.Fatalf("got the key %+v, want it revoked", k)
			}
		}
		tenantCount, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if tenantCount != 0 {
			t.Fatalf("the closed account holds %d tenants, want none", tenantCount)
		}
	})
}
