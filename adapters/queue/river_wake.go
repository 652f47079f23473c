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

// unfinishedStates are the states of a wake-up that waits or runs.
var unfinishedStates = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}

const (
	insertBatch = 200
	// maxUniqueRounds is the number of rounds with a check for duplicates. After that a possible
	// duplicate is inserted, so that a race with other processes ends.
	maxUniqueRounds = 5
)

// Wake implements ports.Queue.
func (r *River) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	for batch := range slices.Chunk(wakeups, insertBatch) {
		if err := r.wake(ctx, batch); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

// insertion is a wake-up that is still to be inserted.
type insertion struct {
	args
	at time.Time
}

// wake inserts wake-ups, the earliest of each job. It repeats the insertion of those that River
// rejects as duplicates although no stored wake-up replaces them.
func (r *River) wake(ctx context.Context, wakeups []ports.Wakeup) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	left := map[jobKey]insertion{}
	for _, w := range wakeups {
		w = withTrace(ctx, w)
		known, found := left[jobKey{w.Kind, w.ID}]
		if !found || w.At.Before(known.at) {
			left[jobKey{w.Kind, w.ID}] = insertion{argsOf(w), w.At}
		}
	}
	for round := 0; len(left) > 0; round++ {
		var params []river.InsertManyParams
		for _, i := range left {
			opts := &river.InsertOpts{Queue: riverQueue, ScheduledAt: i.at}
			if round < maxUniqueRounds {
				opts.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: unfinishedStates}
			}
			params = append(params, river.InsertManyParams{Args: i.args, InsertOpts: opts})
		}
		results, err := r.insert(ctx, params)
		if err != nil {
			return err
		}
		if left, err = notCovered(left, results); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts jobs. It retries, because after a restart of the database every connection in the
// pool may be dead. A job that a failed attempt did insert counts as a duplicate.
func (r *River) insert(ctx context.Context, params []river.InsertManyParams) (results []*rivertype.JobInsertResult, err error) {
	for attempt := range maxConns + 1 {
		if results, err = r.client.InsertMany(ctx, params); err == nil {
			return results, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(attempt) * 50 * time.Millisecond):
		}
	}
	return nil, err
}

// notCovered returns the wake-ups that River rejected as duplicates although the stored wake-up
// does not replace them. The stored one may be running and may have read the job's row too early,
// or it may be due later by more than a second.
func notCovered(requested map[jobKey]insertion, results []*rivertype.JobInsertResult) (map[jobKey]insertion, error) {
	left := map[jobKey]insertion{}
	for _, r := range results {
		if !r.UniqueSkippedAsDuplicate {
			continue
		}
		var stored args
		if err := json.Unmarshal(r.Job.EncodedArgs, &stored); err != nil {
			return nil, fmt.Errorf("read a wake-up: %w", err)
		}
		key := jobKey{stored.Job, stored.ID}
		i := requested[key]
		at := i.at
		if at.IsZero() {
			at = time.Now()
		}
		if r.Job.State == rivertype.JobStateRunning || r.Job.ScheduledAt.After(at.Add(time.Second)) {
			i.Beside = r.Job.ID
			left[key] = i
		}
	}
	return left, nil
}
