// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract/queuecontract"
)

// contractOptions are the options for the contract suite (package queuecontract). The suite
// requires all of them except PollInterval.
var contractOptions = queue.Options{
	MaxHandlers: queuecontract.QueueMaxHandlers, HandlerTimeout: queuecontract.QueueHandlerTimeout, RescueAfter: queuecontract.QueueRescueAfter, RetryDelay: queuecontract.QueueRetryDelay,
	PollInterval: 100 * time.Millisecond,
}

// hangTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const hangTimeout = 4 * time.Minute

func TestContract(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		queuecontract.QueueWithFakeTime(t, func(t testing.TB) func() ports.Worker {
			return func() ports.Worker {
				l, err := queue.NewLocal(contractOptions)
				if err != nil {
					t.Fatal(err)
				}
				stopAtCleanup(t, l)
				return l
			}
		})
	})
	t.Run("river", func(t *testing.T) {
		queuecontract.Queue(t, func(t testing.TB) func() ports.Worker {
			url := newMigratedDatabase(t)
			return func() ports.Worker { return openRiver(t, url, contractOptions) }
		})
	})
}

// newMigratedDatabase returns the URL of a new database with the queue's tables.
func newMigratedDatabase(t testing.TB) (url string) {
	t.Helper()
	url = testserver.Database(t)
	if _, err := queue.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// openRiver opens a River queue that is stopped and closed when the test ends.
func openRiver(t testing.TB, url string, options queue.Options) *queue.River {
	t.Helper()
	river, err := queue.OpenRiver(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		defer cancel()
		if err := river.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	stopAtCleanup(t, river)
	return river
}

// stopAtCleanup stops a worker when the test ends. The test may already have stopped the worker.
func stopAtCleanup(t testing.TB, worker ports.Worker) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		defer cancel()
		if err := worker.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
