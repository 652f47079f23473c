// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tenantry/tenantry/ports"
)

// live are the states in which a wake-up is still to come or runs.
var live = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}

const (
	batch = 200
	// mostBeside ends a race that cannot be won: after that a double comes in.
	mostBeside = 5
)

// Wake implements ports.Queue.
func (r *River) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	for some := range slices.Chunk(wakeups, batch) {
		if err := r.wake(ctx, some); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

// ask is one that still has to be put in.
type ask struct {
	args
	at time.Time
}

func (r *River) wake(ctx context.Context, wakeups []ports.Wakeup) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	left := map[job]ask{}
	for _, w := range wakeups {
		w = caused(ctx, w)
		known, twice := left[job{w.Kind, w.ID}]
		if !twice || w.At.Before(known.at) {
			left[job{w.Kind, w.ID}] = ask{argsOf(w), w.At}
		}
	}
	for round := 0; len(left) > 0; round++ {
		var all []river.InsertManyParams
		for _, a := range left {
			o := &river.InsertOpts{Queue: lane, ScheduledAt: a.at}
			if round < mostBeside {
				o.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: live}
			}
			all = append(all, river.InsertManyParams{Args: a.args, InsertOpts: o})
		}
		results, err := r.insert(ctx, all)
		if err != nil {
			return err
		}
		if left, err = uncovered(left, results); err != nil {
			return err
		}
	}
	return nil
}

// insert tries again: after a restart of the database each connection of the
// pool may be a dead one. What was put in nevertheless is found there.
func (r *River) insert(ctx context.Context, all []river.InsertManyParams) (results []*rivertype.JobInsertResult, err error) {
	for try := range connections + 1 {
		if results, err = r.client.InsertMany(ctx, all); err == nil {
			return results, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(try) * 50 * time.Millisecond):
		}
	}
	return nil, err
}

// uncovered are those that River holds for doubles though the one that it has
// runs already, so that it may have read the job's row too early, or comes
// later.
func uncovered(asked map[job]ask, results []*rivertype.JobInsertResult) (map[job]ask, error) {
	left := map[job]ask{}
	for _, r := range results {
		if !r.UniqueSkippedAsDuplicate {
			continue
		}
		var known args
		if err := json.Unmarshal(r.Job.EncodedArgs, &known); err != nil {
			return nil, fmt.Errorf("read a wake-up: %w", err)
		}
		key := job{known.Job, known.ID}
		a := asked[key]
		at := a.at
		if at.IsZero() {
			at = time.Now()
		}
		if r.Job.State == rivertype.JobStateRunning || r.Job.ScheduledAt.After(at.Add(time.Second)) {
			a.Beside = r.Job.ID
			left[key] = a
		}
	}
	return left, nil
}
