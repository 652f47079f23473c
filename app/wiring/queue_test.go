// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// accountStates are the accounts of a test.
type accountStates struct {
	ports.Keys

	active map[access.AccountID]bool
	err    error
}

func (a accountStates) Account(_ context.Context, id access.AccountID) (access.Account, error) {
	active, found := a.active[id]
	switch {
	case a.err != nil:
		return access.Account{}, a.err
	case !found:
		return access.Account{}, fault.AccountNotFound.With("there is no such account")
	default:
		return access.Account{ID: id, Active: active}, nil
	}
}

// TestJobsOfInactiveAccountsWait checks that a wake-up runs its handler only if its account is
// active, and that it is retried if the account cannot be read.
func TestJobsOfInactiveAccountsWait(t *testing.T) {
	away, failed := errors.New("the database is away"), errors.New("the handler fails")
	for name, tt := range map[string]struct {
		account access.AccountID
		err     error
		want    error
	}{
		"active":               {"active", nil, failed},
		"suspended or closed":  {"inactive", nil, nil},
		"deleted":              {"nobody", nil, nil},
		"the database is away": {"active", away, away},
	} {
		t.Run(name, func(t *testing.T) {
			accounts := accountStates{active: map[access.AccountID]bool{"active": true, "inactive": false}, err: tt.err}
			handle := onlyForActiveAccounts(accounts, func(context.Context, ports.Wakeup) error { return failed })
			if err := handle(t.Context(), ports.Wakeup{Account: tt.account}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
