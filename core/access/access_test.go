// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// keyDigits stands for the random digits of a key.
const keyDigits = "0123456789abcdef0123456789abcdef0123456789abcdef"

func TestPlansHaveThePublishedLimits(t *testing.T) {
	want := []access.Plan{
		{Name: "api_starter", TenantSlots: 25},
		{Name: "api_growth", TenantSlots: 50, AutomaticDNS: true},
		{Name: "api_scale", TenantSlots: 100, AutomaticDNS: true},
		{Name: "complete", TenantSlots: 100, AutomaticDNS: true},
		{Name: "legacy_trial", TenantSlots: 5},
	}
	if diff := cmp.Diff(want, access.Plans()); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanLimitsTheTenantsOfItsAccount(t *testing.T) {
	account := access.Account{Active: true, Plan: access.Plan{TenantSlots: 2}}
	for _, tc := range []struct {
		name string
		got  error // of the check
		want error
	}{
		{"an active account is allowed", account.CheckActive(), nil},
		{"an inactive account is refused", access.Account{}.CheckActive(), fault.NoAPIPlan},
		{"a tenant may take the last slot", account.CheckFreeSlot(1), nil},
		{"no tenant may be connected beyond the slots", account.CheckFreeSlot(2), fault.TenantLimitReached},
		{"an account at its limit may add to its tenants", account.CheckMayGrow(2), nil},
		{"an account above its limit may not add to its tenants", account.CheckMayGrow(3), fault.TenantLimitReached},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !errors.Is(tc.got, tc.want) {
				t.Fatalf("got %v, want %v", tc.got, tc.want)
			}
		})
	}
}

func TestOnlyClosedAccountsFailCheckOpen(t *testing.T) {
	closedAt := time.Unix(1, 0)
	for _, tc := range []struct {
		name        string
		account     access.Account
		wantStatus  access.Status
		wantOpenErr error
	}{
		{"an active account", access.Account{Active: true}, access.StatusActive, nil},
		{"a suspended account can be changed", access.Account{}, access.StatusSuspended, nil},
		{"a closed account cannot be changed", access.Account{ClosedAt: closedAt}, access.StatusClosed, fault.AccountClosed},
		{"closed takes precedence over active", access.Account{Active: true, ClosedAt: closedAt}, access.StatusClosed, fault.AccountClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := tc.account.Status(), tc.account.CheckOpen(); got != tc.wantStatus || !errors.Is(err, tc.wantOpenErr) {
				t.Fatalf("got %s, %v; want %s, %v", got, err, tc.wantStatus, tc.wantOpenErr)
			}
		})
	}
}

func TestUnknownPlanListsPlans(t *testing.T) {
	err := access.UnknownPlan()
	for _, plan := range access.Plans() {
		if !errors.Is(err, fault.InvalidRequest) || !strings.Contains(err.Error(), plan.Name) {
			t.Errorf("got %v, want invalid_request with the plan %s", err, plan.Name)
		}
	}
}

func TestCheckEmailRefusesMalformedAddresses(t *testing.T) {
	for email, valid := range map[string]bool{
		"ann@example.com": true, "ann.lee+x@sub.example.com": true, "Änn@exämple.com": true, "ann@localhost": true,
		"": false, "ann": false, "@example.com": false, "ann@": false, "a@b@c": false, "an n@example.com": false,
		"ann@exam\nple.com": false, "ann@exam\x00ple.com": false, strings.Repeat("a", 250) + "@b.example": false,
	} {
		if err := access.CheckEmail(email); (err == nil) != valid {
			t.Errorf("CheckEmail(%q): got %v, want valid %t", email, err, valid)
		}
	}
}
