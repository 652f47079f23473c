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

// stageRow is the row of a stage in the table of docs/provisioning.md.
type stageRow struct{ next, stops []string }

var codePattern = regexp.MustCompile("`([a-z_]+)`")

// documentedStages reads the table of the page. TestEveryJobEndsOrRequiresAnAction uses it too.
func documentedStages(t testing.TB) map[Stage]stageRow {
	t.Helper()
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	found := map[Stage]stageRow{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		found[Stage(strings.Trim(cells[1], " `"))] = stageRow{codesIn(cells[3]), codesIn(cells[4])}
	}
	return found
}

func codesIn(cell string) []string {
	var all []string
	for _, m := range codePattern.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// jobHistories change a running job to one that has been at its step for some time.
var jobHistories = map[string]func(*Job){
	"new":     func(*Job) {},
	"overdue": func(j *Job) { j.Since = j.Since.Add(-DefaultTimetable.StageLimit) },
	"all away": func(j *Job) {
		j.Since, j.UnavailableSince = j.Since.Add(-2*DefaultTimetable.StageLimit), j.Since.Add(-2*DefaultTimetable.StageLimit)
	},
	"unreliable":    func(j *Job) { j.UnreliableSince = j.Since.Add(-DefaultTimetable.UnreliableLimit) },
	"missing":       func(j *Job) { j.MissingSince = j.Since.Add(-observation.ReplicaLag) },
	"seen once":     func(j *Job) { j.SeenAt = j.Since.Add(-time.Minute) },
	"moved twice":   func(j *Job) { j.ZoneChanges = 2 },
	"many faults":   func(j *Job) { j.Faults = maxFaults - 1 },
	"verified late": func(j *Job) { j.PublishedAt = j.Since.Add(-time.Hour) },
}

// reachableStages returns all transitions from each step.
func reachableStages(t testing.TB) map[Stage]stageRow {
	next, stops := map[Stage]map[string]bool{}, map[Stage]map[string]bool{}
	add := func(in map[Stage]map[string]bool, from Stage, what string) {
		if in[from] == nil {
			in[from] = map[string]bool{}
		}
		in[from][what] = true
	}
	for _, path := range pathsToSteps {
		for _, change := range jobHistories {
			for _, o := range observations {
				j := afterObservations(t, newJob(), path...)
				now := j.NextAttemptAt.Add(time.Minute)
				j, _ = BeginAttempt(j, now)
				change(&j)
				after, _ := DefaultTimetable.Advance(j, o, at(now))
				if after.Stage != j.Stage {
					add(next, j.Stage, string(after.Stage))
				}
				if after.Status == Failed {
					add(stops, j.Stage, string(Failed))
				}
				if after.Required != "" {
					add(stops, j.Stage, string(after.Required))
				}
			}
		}
	}
	found := map[Stage]stageRow{
		StageQueued: {[]string{string(StagePlan)}, nil},
		StageDone:   {nil, nil},
	}
	for stage := range stops {
		found[stage] = stageRow{slices.Sorted(maps.Keys(next[stage])), slices.Sorted(maps.Keys(stops[stage]))}
	}
	return found
}

func TestDocsListAllTransitions(t *testing.T) {
	if diff := cmp.Diff(reachableStages(t), documentedStages(t), cmp.AllowUnexported(stageRow{})); diff != "" {
		t.Fatalf("%s (-code +page):\n%s", docPath, diff)
	}
}

func TestDocsExplainRequiredActions(t *testing.T) {
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for code, says := range actionMessages {
		if !strings.Contains(all, "| `"+string(code)+"` | "+says+" |") {
			t.Errorf("the page does not say:\n| `%s` | %s |", code, says)
		}
	}
	codes := map[string]bool{}
	for _, r := range documentedStages(t) {
		for _, stop := range r.stops {
			codes[stop] = true
		}
	}
	if len(codes) != len(actionMessages)+1 { // the stop "failed" has no advice
		t.Errorf("the table has %d codes, %d are known", len(codes)-1, len(actionMessages))
	}
	for _, s := range []Status{Queued, Running, Waiting, ActionRequired, Completed, Failed} {
		if !strings.Contains(all, "| `"+string(s)+"` |") {
			t.Errorf("the page does not explain %s", s)
		}
	}
}

// TestDocsStateTheTimetable checks that the page states the durations of the code.
func TestDocsStateTheTimetable(t *testing.T) {
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"15 seconds", "15 minutes", "10 seconds", "an hour", "48 hours"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if DefaultTimetable != (Timetable{15 * time.Second, 15 * time.Minute, 10 * time.Second, time.Hour, time.Hour, 48 * time.Hour}) {
		t.Error("the timetable is another: change the page and this test with it")
	}
}
