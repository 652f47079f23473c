// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/observation"
)

const docPath = "../../docs/provisioning.md"

func readDoc(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stageRow is the row of a stage in the table of docs/provisioning.md. next lists the stages that
// may follow. stops lists the required actions, and "failed" if a job can fail in the stage.
type stageRow struct{ next, stops []string }

var codePattern = regexp.MustCompile("`([a-z_]+)`")

// documentedStages returns the rows of the table of docs/provisioning.md.
func documentedStages(t testing.TB) map[Stage]stageRow {
	t.Helper()
	rows := map[Stage]stageRow{}
	for line := range strings.Lines(readDoc(t)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		rows[Stage(strings.Trim(cells[1], " `"))] = stageRow{codesIn(cells[3]), codesIn(cells[4])}
	}
	return rows
}

// codesIn returns the words of a cell that are in backquotes, sorted and without repetitions.
func codesIn(cell string) []string {
	var codes []string
	for _, m := range codePattern.FindAllStringSubmatch(cell, -1) {
		codes = append(codes, m[1])
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// jobHistories are functions that change a running job as if it had a longer history.
var jobHistories = map[string]func(*Job){
	"new":     func(*Job) {},
	"overdue": func(job *Job) { job.StageSince = job.StageSince.Add(-DefaultRetryPolicy.StageLimit) },
	"unavailable for long": func(job *Job) {
		job.StageSince, job.OutageSince = job.StageSince.Add(-2*DefaultRetryPolicy.StageLimit), job.StageSince.Add(-2*DefaultRetryPolicy.StageLimit)
	},
	"unreliable":         func(job *Job) { job.UnreliableSince = job.StageSince.Add(-DefaultRetryPolicy.UnreliableLimit) },
	"domain missing":     func(job *Job) { job.MissingSince = job.StageSince.Add(-observation.ReplicaLag) },
	"seen once":          func(job *Job) { job.VisibleSince = job.StageSince.Add(-time.Minute) },
	"zone changed twice": func(job *Job) { job.ZoneChanges = 2 },
	"many faults":        func(job *Job) { job.Faults = maxFaults },
	"published long ago": func(job *Job) { job.PublishedAt = job.StageSince.Add(-time.Hour) },
}

// reachableStages returns the rows that result from the decisions of Advance. It makes each
// observation at each step, after each of jobHistories.
func reachableStages(t testing.TB) map[Stage]stageRow {
	nextStages, stops := map[Stage]map[string]bool{}, map[Stage]map[string]bool{}
	addTransition := func(transitions map[Stage]map[string]bool, from Stage, to string) {
		if transitions[from] == nil {
			transitions[from] = map[string]bool{}
		}
		transitions[from][to] = true
	}
	for _, path := range pathsToSteps {
		for _, change := range jobHistories {
			for _, observed := range observations {
				job := afterObservations(t, newJob(), path...)
				now := job.NextAttemptAt.Add(time.Minute)
				job, _ = DefaultRetryPolicy.BeginAttempt(job, now)
				change(&job)
				after, _ := DefaultRetryPolicy.Advance(job, observed, at(now))
				if after.Stage != job.Stage {
					addTransition(nextStages, job.Stage, string(after.Stage))
				}
				if after.Status == Failed {
					addTransition(stops, job.Stage, string(Failed))
				}
				if after.RequiredAction != "" {
					addTransition(stops, job.Stage, string(after.RequiredAction))
				}
			}
		}
	}
	rows := map[Stage]stageRow{
		StageQueued: {[]string{string(StagePlan)}, nil},
		StageDone:   {nil, nil},
	}
	for stage := range stops {
		rows[stage] = stageRow{slices.Sorted(maps.Keys(nextStages[stage])), slices.Sorted(maps.Keys(stops[stage]))}
	}
	return rows
}

func TestDocsListAllTransitions(t *testing.T) {
	if diff := cmp.Diff(reachableStages(t), documentedStages(t), cmp.AllowUnexported(stageRow{})); diff != "" {
		t.Fatalf("%s (-code +page):\n%s", docPath, diff)
	}
}

func TestDocsExplainRequiredActions(t *testing.T) {
	page := readDoc(t)
	for code, message := range actionMessages {
		if !strings.Contains(page, "| `"+string(code)+"` | "+message+" |") {
			t.Errorf("the page does not say:\n| `%s` | %s |", code, message)
		}
	}
	codes := map[string]bool{}
	for _, row := range documentedStages(t) {
		for _, stop := range row.stops {
			codes[stop] = true
		}
	}
	if len(codes) != len(actionMessages)+1 { // "failed" is a stop, but not a required action
		t.Errorf("the table lists %d required actions, want %d", len(codes)-1, len(actionMessages))
	}
	for _, s := range []Status{Queued, Running, Waiting, ActionRequired, Completed, Failed} {
		if !strings.Contains(page, "| `"+string(s)+"` |") {
			t.Errorf("the page does not explain %s", s)
		}
	}
}

// TestDocsStateTheRetryPolicy checks that docs/provisioning.md states the durations of
// DefaultRetryPolicy.
func TestDocsStateTheRetryPolicy(t *testing.T) {
	page := readDoc(t)
	for _, want := range []string{"15 seconds", "15 minutes", "10 seconds", "an hour", "48 hours"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if DefaultRetryPolicy != (RetryPolicy{15 * time.Second, 15 * time.Minute, 10 * time.Second, time.Hour, time.Hour, 48 * time.Hour, false}) {
		t.Errorf("DefaultRetryPolicy is %+v: change the page and this test with it", DefaultRetryPolicy)
	}
}
