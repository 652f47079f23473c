// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

// forContract is what the contract asks for.
var forContract = queue.Options{
	AtOnce: contract.QueueAtOnce, Deadline: contract.QueueDeadline, Rescue: contract.QueueRescue, Pause: contract.QueuePause,
	Poll: 100 * time.Millisecond,
}

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

func TestContract(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		contract.QueueWithFakeTime(t, func(t testing.TB) func() ports.Worker {
			return func() ports.Worker {
				l, err := queue.NewLocal(forContract)
				if err != nil {
					t.Fatal(err)
				}
				stopped(t, l)
				return l
			}
		})
	})
	t.Run("river", func(t *testing.T) {
		contract.Queue(t, func(t testing.TB) func() ports.Worker {
			url := migrated(t)
			return func() ports.Worker { return openRiver(t, url, forContract) }
		})
	})
}

// migrated is a database with the queue's tables.
func migrated(t testing.TB) (url string) {
	t.Helper()
	url = testserver.Database(t)
	if _, err := queue.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func openRiver(t testing.TB, url string, o queue.Options) *queue.River {
	t.Helper()
	r, err := queue.OpenRiver(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	stopped(t, r)
	return r
}

// stopped ends a worker with its test. A check may have stopped it already.
func stopped(t testing.TB, w ports.Worker) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
