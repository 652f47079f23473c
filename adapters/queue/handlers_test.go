// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/ports"
)

// TestNextRunHasAMonotonicTime checks that the due time of the next run has a monotonic clock
// reading. A clock that is set back then does not delay the run in Local.
func TestNextRunHasAMonotonicTime(t *testing.T) {
	const every = time.Minute
	for name, at := range map[string]time.Time{"due in the past": time.Now().Add(-time.Second), "due in the future": time.Now().Add(every)} {
		woken := &fake.Wakeups{}
		byKind, err := newHandlers(woken, ports.Work{Periodic: []ports.Periodic{{Kind: "sweep", Every: every, Do: func(context.Context) error { return nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := byKind["sweep"](t.Context(), ports.Wakeup{Kind: "sweep", At: at}); err != nil {
			t.Fatal(err)
		}
		next := woken.All()[0].At
		if !next.After(at) || !next.Round(0).Equal(next.UTC().Truncate(every)) {
			t.Errorf("%s: the next run after %s is at %s, want a multiple of %s", name, at, next, every)
		}
		if !strings.Contains(next.String(), "m=") {
			t.Errorf("%s: the next run at %s has no monotonic clock reading", name, next)
		}
	}
}
