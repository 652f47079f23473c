// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

func TestStatusOfAnAccount(t *testing.T) {
	closed := time.Unix(1, 0)
	for _, tt := range []struct {
		name    string
		account access.Account
		want    access.Status
		change  error
	}{
		{"active", access.Account{Active: true}, access.StatusActive, nil},
		{"suspended accounts can be changed", access.Account{}, access.StatusSuspended, nil},
		{"closed is final", access.Account{ClosedAt: closed}, access.StatusClosed, fault.AccountClosed},
		{"closed, whatever else", access.Account{Active: true, ClosedAt: closed}, access.StatusClosed, fault.AccountClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.account.Status(), tt.account.Open(); got != tt.want || !errors.Is(err, tt.change) {
				t.Fatalf("got %s, %v", got, err)
			}
		})
	}
}

func TestStatusOfAKey(t *testing.T) {
	if got := (access.Key{}).Status(); got != access.StatusActive {
		t.Errorf("a key is %s", got)
	}
	if got := (access.Key{RevokedAt: time.Unix(1, 0)}).Status(); got != access.StatusRevoked {
		t.Errorf("a revoked key is %s", got)
	}
}

func TestAnUnknownPlanIsToldTheKnownOnes(t *testing.T) {
	err := access.NoSuchPlan()
	for _, plan := range access.Plans() {
		if !errors.Is(err, fault.InvalidRequest) || !strings.Contains(err.Error(), plan.Name) {
			t.Errorf("%v does not name %s", err, plan.Name)
		}
	}
}
