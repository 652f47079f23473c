// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

var accountChecks = []storeCheck{
	{"a new account has what its plan gives", func(t testing.TB, s Stores) {
		for _, p := range access.Plans() {
			a, err := s.CreateAccount(t.Context(), p.Name+"@example.test", p.Name, 0, now)
			must(t, "create", err)
			if a.Plan != p || !a.Active || a.Email != p.Name+"@example.test" || !a.CreatedAt.Equal(now) {
				t.Fatalf("got %+v, want an active account of plan %+v", a, p)
			}
		}
	}},
	{"slots follow the plan unless they are the account's own", func(t testing.TB, s Stores) {
		for _, tt := range []struct{ created, changed, want int }{{0, 0, 100}, {7, 0, 7}, {7, 9, 9}, {0, 9, 9}} {
			a, err := s.CreateAccount(t.Context(), fmt.Sprintf("slots-%d-%d@example.test", tt.created, tt.changed), "api_starter", tt.created, now)
			must(t, "create", err)
			a, err = s.SetPlan(t.Context(), a.ID, "api_scale", true, tt.changed)
			must(t, "set plan", err)
			if a.Plan.TenantSlots != tt.want || a.Plan.Name != "api_scale" || !a.Plan.AutomaticDNS {
				t.Fatalf("%+v: got %+v", tt, a.Plan)
			}
		}
	}},
	{"an unknown plan is refused", func(t testing.TB, s Stores) {
		_, err := s.CreateAccount(t.Context(), "ann@example.test", "gold", 0, now)
		refused(t, "create", err, fault.InvalidRequest)
		_, err = s.SetPlan(t.Context(), newAccount(t, s, "ann"), "gold", true, 0)
		refused(t, "set plan", err, fault.InvalidRequest)
	}},
	{"of several accounts for one address one is made", func(t testing.TB, s Stores) {
		spellings := []string{"ann@example.test", "ANN@example.test", " Ann@Example.test "}
		errs := atOnce(9, func(i int) error {
			_, err := s.CreateAccount(t.Context(), spellings[i%3], "complete", 0, now)
			return err
		})
		if n := winners(t, errs, fault.InvalidRequest); n != 1 {
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
			refused(t, "find "+by, err, fault.AccountNotFound)
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
	{"an unknown account gets neither plan nor key", func(t testing.TB, s Stores) {
		_, err := s.SetPlan(t.Context(), "10000000-0000-4000-8000-000000000000", "complete", true, 0)
		refused(t, "set plan", err, fault.AccountNotFound)
		refused(t, "add key", s.AddKey(t.Context(), key("10000000-0000-4000-8000-000000000000", 1)), fault.AccountNotFound)
	}},
}
