// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
)

// world drives one job as a queue, workers and people would, and remembers what
// must hold all the time.
type world struct {
	job   Job
	now   time.Time
	table map[Stage]row
	// began is when the job last got all its time, since then steps and clock
	// jumps forward are counted.
	began time.Time
	steps int
	held  []Job // as workers that lost it still know it
}

// everything is how long and how often a job can try at the very most: each
// stage may take Limit twice, and the zone may move twice.
const (
	everything = 3 * 9 * (2*48 + 3) * time.Hour
	mostSteps  = 3 * 9 * 500 // a pause is 15 min after some tries
)

// act takes the job one step on, or has somebody interfere.
func (w *world) act(t *rapid.T) {
	before := w.job
	switch rapid.IntRange(0, 11).Draw(t, "act") {
	case 0: // a clock jumps
		w.now = w.now.Add(time.Duration(rapid.IntRange(-72, 72).Draw(t, "hours")) * time.Hour)
	case 1: // somebody retries
		w.retry(t)
	case 2: // a worker dies, or is stopped and gives the job back: the next one claims it
		w.held = append(w.held, w.job)
		if w.job.Status == Running {
			w.job.Epoch++
		}
	case 3: // a lost worker goes on
		w.late(t)
	default:
		w.work(t)
	}
	w.check(t, before)
}

func (w *world) retry(t *rapid.T) {
	got, err := Retry(w.job, w.now)
	may := w.job.Status == Waiting || w.job.Status == ActionRequired
	if may != (err == nil) || err != nil && !errors.Is(err, fault.JobNotRetryable) {
		t.Fatalf("retry of %s: %v", w.job.Status, err)
	}
	if err == nil && w.job.Status == ActionRequired {
		w.began, w.steps = w.now, 0
	}
	w.job = got
}

// late is a worker with an old epoch: the store refuses what it decides.
func (w *world) late(t *rapid.T) {
	if len(w.held) == 0 {
		return
	}
	old := rapid.SampledFrom(w.held).Draw(t, "late")
	decided, _ := Usual.Advance(old, w.observation(t), Moment{Now: w.now})
	if decided.Epoch != old.Epoch {
		t.Fatalf("a step changed the epoch %d to %d", old.Epoch, decided.Epoch)
	}
	if decided.Epoch == w.job.Epoch && old.Status == Running && w.job == old {
		w.job = decided
	}
}

func (w *world) observation(t *rapid.T) Observation {
	return observations[rapid.SampledFrom(slices.Sorted(maps.Keys(observations))).Draw(t, "observation")]
}

// work is a worker with the job: it waits until it is due, claims and advances.
func (w *world) work(t *rapid.T) {
	if !w.job.Status.hasNextAttempt() {
		return
	}
	if w.job.Status != Running {
		if w.job.NextAttemptAt.After(w.now) {
			w.now = w.job.NextAttemptAt
		}
		w.job.Epoch++
		w.job, _ = Begin(w.job, w.now)
	}
	w.steps++
	var step Step
	w.job, step = Usual.Advance(w.job, w.observation(t), Moment{w.now, rapid.Float64Range(0, 0.999).Draw(t, "chance")})
	w.promised(t, step)
}

// promised is what every decision keeps.
func (w *world) promised(t *rapid.T, step Step) {
	j := w.job
	if step != j.step() || (j.Status == Running) != (step != Wait && step != None) {
		t.Fatalf("%s with step %q", j.Status, step)
	}
	switch j.Status {
	case Waiting:
		if pause := j.NextAttemptAt.Sub(w.now); pause <= 0 || pause > time.Hour || j.Message == "" {
			t.Fatalf("waits %s and says %q", pause, j.Message)
		}
	case Running:
		if j.NextAttemptAt.After(w.now) || j.Next == None {
			t.Fatalf("runs %q at %s", j.Next, j.NextAttemptAt)
		}
	case ActionRequired:
		if !slices.Contains(w.table[j.Stage].stops, string(j.Required)) || j.Message == "" || j.Next == None {
			t.Fatalf("stops in %s with %q: %q", j.Stage, j.Required, j.Message)
		}
	case Completed, Failed:
		if j.EndedAt.IsZero() || j.Next != None || (j.Status == Completed) != (j.Stage == StageDone) {
			t.Fatalf("ends as %+v", j)
		}
	default:
		t.Fatalf("a step leaves it %s", j.Status)
	}
	if j.Status != ActionRequired && j.Required != "" {
		t.Fatalf("%s requires %s", j.Status, j.Required)
	}
}

// check is what holds between any two moments.
func (w *world) check(t *rapid.T, before Job) {
	if w.job.Epoch < before.Epoch {
		t.Fatalf("epoch %d after %d", w.job.Epoch, before.Epoch)
	}
	if !before.Status.Active() && w.job != before {
		t.Fatalf("an ended job became %+v", w.job)
	}
	allowed := w.table[before.Stage].next
	if before.Stage == StageQueued { // begun and advanced in one
		allowed = append(slices.Clone(allowed), w.table[StagePlan].next...)
	}
	wasReset := before.Status == ActionRequired && w.job.Status == Queued
	if w.job.Stage != before.Stage && !wasReset && !slices.Contains(allowed, string(w.job.Stage)) {
		t.Fatalf("from %s to %s", before.Stage, w.job.Stage)
	}
	if w.job.Moves >= maxMoves && w.job.Status != ActionRequired {
		t.Fatalf("%s after %d moves", w.job.Status, w.job.Moves)
	}
}

// TestModel takes jobs through whatever may happen, and then lets happen one
// thing for ever: that ends as well.
func TestModel(t *testing.T) {
	table := rows(t)
	rapid.Check(t, func(t *rapid.T) {
		w := &world{job: fresh(), now: start, began: start, table: table}
		for range rapid.IntRange(0, 60).Draw(t, "acts") {
			w.act(t)
		}
		w.endless(t)
	})
}

// endless does not retry and sets no clock: the job ends, or a person has to act.
func (w *world) endless(t *rapid.T) {
	few := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(observations))), 1, 3).Draw(t, "for ever")
	began := w.now
	if w.job.NextAttemptAt.After(began) {
		began = w.job.NextAttemptAt
	}
	for steps := 0; w.job.Status.hasNextAttempt(); steps++ {
		if w.job.Status != Running {
			if w.job.NextAttemptAt.After(w.now) {
				w.now = w.job.NextAttemptAt
			}
			w.job, _ = Begin(w.job, w.now)
		}
		var step Step
		w.job, step = Usual.Advance(w.job, observations[few[steps%len(few)]], at(w.now))
		w.promised(t, step)
		if steps > mostSteps || w.now.Sub(began) > everything {
			t.Fatalf("it does not end: after %d steps and %s it is %s in %s", steps, w.now.Sub(began), w.job.Status, w.job.Stage)
		}
	}
}

// TestGoodWorldsComplete: where everybody answers in the end, every job does.
func TestGoodWorldsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		troubles := []string{"throttled", "down", "lost", "broken", "not ready", "database away", "ours"}
		j, now := fresh(), start
		for _, good := range toCompleted {
			for range rapid.IntRange(0, 3).Draw(t, "troubles") {
				j, now = once(j, now, observations[rapid.SampledFrom(troubles).Draw(t, "trouble")])
			}
			j, now = once(j, now, observations[good])
		}
		if j.Status != Completed {
			t.Fatalf("got %+v", j)
		}
	})
}

func once(j Job, now time.Time, o Observation) (Job, time.Time) {
	if j.NextAttemptAt.After(now) {
		now = j.NextAttemptAt
	}
	j, _ = Begin(j, now)
	j, _ = Usual.Advance(j, o, at(now))
	return j, now
}
