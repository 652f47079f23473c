// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
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
	{"a plan brings its own slots, whatever the account had before", func(t testing.TB, s Stores) {
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
	{"a plan and a suspension leave each other alone", func(t testing.TB, s Stores) {
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
		attach(t, s, ann, 1)
		attach(t, s, ann, 2)
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
		refused(t, "create", err, fault.InvalidRequest)
		ann := newAccount(t, s, "ann")
		_, err = s.ChangePlan(t.Context(), ann, "gold", 0)
		refused(t, "change plan", err, fault.InvalidRequest)
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
	{"an unknown account gets neither plan nor key, and cannot be closed", func(t testing.TB, s Stores) {
		for _, id := range []access.AccountID{"10000000-0000-4000-8000-000000000000", "nonsense", ""} {
			_, err := s.ChangePlan(t.Context(), id, "complete", 0)
			refused(t, "change plan", err, fault.AccountNotFound)
			_, err = s.SetActive(t.Context(), id, false)
			refused(t, "suspend", err, fault.AccountNotFound)
			_, err = s.CloseAccount(t.Context(), id, now)
			refused(t, "close", err, fault.AccountNotFound)
			refused(t, "add key", s.AddKey(t.Context(), key(id, 1)), fault.AccountNotFound)
		}
	}},
}
