// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

const (
	// readingMost is how long a list may take that has more pages than its
	// platform lets us read at a time. What is older may not be true any more.
	readingMost = 15 * time.Minute
	// leastPause lies before the next part of a list, however soon the platform
	// would have us back.
	leastPause = 5 * time.Second
)

// reading is a list of accounts that is read for a refresh.
type reading struct {
	*listing // nil before it has begun

	all   []integration.Eligible
	began time.Time
	// patient says that it may be read on later.
	patient bool
	// why is what it broke off for.
	why error
}

// goesOn reports whether the rest is for later, and how much.
func (r *reading) goesOn(now time.Time) (after time.Duration, later bool) {
	if !r.patient || r.listing == nil || r.pages == 0 || outcome.Of(r.why) != outcome.Throttled {
		return 0, false
	}
	after = max(pause(r.why), leastPause)
	return after, now.Add(after).Sub(r.began) < readingMost
}

// readings are the lists of which this process has read a part. They are not
// stored: where another process is woken for the rest it begins anew, and keeps
// its own part, so that with any number of them one gets to the end.
type readings struct {
	mu sync.Mutex
	of map[string]*reading // by integration
}

// take gives what was read of an integration's list, or a reading that has not
// begun.
func (k *readings) take(id string, now time.Time) *reading {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, found := k.of[id]
	delete(k.of, id)
	if !found || now.Sub(r.began) >= readingMost {
		return &reading{patient: true}
	}
	return r
}

// keep keeps a part, and forgets those that nobody came back for.
func (k *readings) keep(id string, r *reading, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]*reading{}
	}
	for other, old := range k.of {
		if now.Sub(old.began) >= readingMost {
			delete(k.of, other)
		}
	}
	k.of[id] = r
}
