// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// accountStates is a store of accounts that are active or not. If readErr is set, each read fails.
type accountStates struct {
	ports.Keys

	active  map[access.AccountID]bool
	readErr error
}

func (a accountStates) Account(_ context.Context, id access.AccountID) (access.Account, error) {
	active, found := a.active[id]
	switch {
	case a.readErr != nil:
		return access.Account{}, a.readErr
	case !found:
		return access.Account{}, fault.AccountNotFound.With("there is no such account")
	default:
		return access.Account{ID: id, Active: active}, nil
	}
}

// TestJobsRunOnlyForActiveAccounts checks that the handler of a wake-up runs only if the account of
// the wake-up is active, and that the wake-up fails if the account cannot be read.
func TestJobsRunOnlyForActiveAccounts(t *testing.T) {
	errDatabase, errHandler := errors.New("the database is unreachable"), errors.New("the handler fails")
	for name, tc := range map[string]struct {
		account access.AccountID
		readErr error
		want    error
	}{
		"an active account":             {"active", nil, errHandler},
		"a suspended or closed account": {"inactive", nil, nil},
		"a deleted account":             {"nobody", nil, nil},
		"an unreachable database":       {"active", errDatabase, errDatabase},
	} {
		t.Run(name, func(t *testing.T) {
			accounts := accountStates{active: map[access.AccountID]bool{"active": true, "inactive": false}, readErr: tc.readErr}
			handle := onlyForActiveAccounts(accounts, func(context.Context, ports.Wakeup) error { return errHandler })
			if err := handle(t.Context(), ports.Wakeup{Account: tc.account}); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestEachKindOfJobDecidesOnInactiveAccounts checks that runsForInactiveAccounts lists exactly the
// kinds of job that QueueWork returns, and that only the jobs that wait for an active account load
// the account. The database is closed, so loading an account fails. The handlers have no services,
// so a handler that runs panics.
func TestEachKindOfJobDecidesOnInactiveAccounts(t *testing.T) {
	store, err := bunstore.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "tenantry.db"), bunstore.Options{})
	must(t, err)
	must(t, store.Close())
	service := &Service{
		Store: store, dnsWorker: &dnsruns.Worker{}, domainWatch: &domains.Watch{}, integrations: &integrations.Service{},
		Enforcer: &enforcement.Runner{}, WebhookWorker: &webhooks.Worker{},
	}
	handlers := service.QueueWork().Handlers
	if diff := cmp.Diff(slices.Sorted(maps.Keys(runsForInactiveAccounts)), slices.Sorted(maps.Keys(handlers))); diff != "" {
		t.Errorf("the kinds of jobs (-in runsForInactiveAccounts +from QueueWork):\n%s", diff)
	}
	for kind, handle := range handlers {
		err := panics.Catch(func() error { return handle(t.Context(), ports.Wakeup{Kind: kind, ID: "1", Account: "inactive"}) })
		if waits := err != nil && strings.HasPrefix(err.Error(), "load the account of a job: "); waits == runsForInactiveAccounts[kind] {
			t.Errorf("the job %s waits while its account is inactive: %t (%v), want %t", kind, waits, err, !runsForInactiveAccounts[kind])
		}
	}
}

// waitingDeliveries is a store whose FanOut waits until the queue is stopped or the context of the
// batch ends.
type waitingDeliveries struct {
	ports.Deliveries

	begun, queueStopped chan struct{}
	ended               chan error // receives the error of the context when FanOut ends
}

func (waitingDeliveries) AccountsWithNewEvents(context.Context, int) ([]access.AccountID, error) {
	return []access.AccountID{"ann"}, nil
}

func (d waitingDeliveries) FanOut(ctx context.Context, _ []access.AccountID, _ int, _ ports.Slots, _ time.Duration, _ time.Time) (ports.FanOutResult, error) {
	close(d.begun)
	select {
	case <-d.queueStopped:
	case <-ctx.Done():
	}
	d.ended <- ctx.Err()
	return ports.FanOutResult{}, ctx.Err()
}

// stoppableQueue is a queue whose Stop closes the channel stopped.
type stoppableQueue struct {
	jobQueue

	stopped chan struct{}
}

func (q stoppableQueue) Stop(context.Context) error {
	close(q.stopped)
	return nil
}

// TestSlowDeliveriesDoNotDelayTheStopOfTheQueue checks that StopQueue stops the queue while a batch
// of deliveries is still in progress.
func TestSlowDeliveriesDoNotDelayTheStopOfTheQueue(t *testing.T) {
	deliveries := waitingDeliveries{begun: make(chan struct{}), queueStopped: make(chan struct{}), ended: make(chan error, 1)}
	service := &Service{
		Queue:         stoppableQueue{stopped: deliveries.queueStopped},
		WebhookWorker: webhooks.NewWorker(webhooks.Options{Deliveries: deliveries, Now: time.Now, Log: slog.New(slog.DiscardHandler)}),
	}
	service.WebhookWorker.Start()
	<-deliveries.begun
	must(t, service.StopQueue(t.Context()))
	if err := <-deliveries.ended; err != nil {
		t.Errorf("the batch ended with %v, want no error, because the queue stops before the batch ends", err)
	}
}

// TestEnforceNowReturnsTheErrorOfTheStore checks a failure of the mail platform for one tenant,
// followed by an error of the store. EnforceNow must log the failure, and return only the error of
// the store.
func TestEnforceNowReturnsTheErrorOfTheStore(t *testing.T) {
	var log bytes.Buffer
	claims := &failingClaims{storeErr: errors.New("the tenants cannot be listed")}
	service := &Service{Enforcer: &enforcement.Runner{Claims: claims, Now: time.Now}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := service.EnforceNow(t.Context()); !errors.Is(err, claims.storeErr) || !strings.Contains(log.String(), "some tenants could not be enforced") {
		t.Errorf("got the error %v, want %v and a log of the failure; the log:\n%s", err, claims.storeErr, log.String())
	}
}

// failingClaims is a store with two tenants. The claim of the first tenant fails with an error of
// the mail platform. A different process has leased the second tenant. The second list of the
// tenants fails.
type failingClaims struct {
	ports.TenantClaims

	lists    int
	storeErr error
}

func (c *failingClaims) TenantsDueBy(context.Context, time.Time) ([]ports.DueTenant, error) {
	if c.lists++; c.lists > 1 {
		return nil, c.storeErr
	}
	return []ports.DueTenant{{Tenant: "failing"}, {Tenant: "leased"}}, nil
}

func (c *failingClaims) ClaimTenant(_ context.Context, _ access.AccountID, id tenant.GUID, _ time.Duration, _ time.Time) (claim ports.TenantClaim, won bool, err error) {
	if id == "failing" {
		err = &outcome.Error{Kind: outcome.Down}
	}
	return claim, false, err
}
