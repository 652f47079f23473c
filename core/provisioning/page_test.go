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
)

const page = "../../docs/provisioning.md"

// row is what the page says of a stage.
type row struct{ next, stops []string }

var word = regexp.MustCompile("`([a-z_]+)`")

// rows reads the table of the page: it is the rule for the model too.
func rows(t testing.TB) map[Stage]row {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[Stage]row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		found[Stage(strings.Trim(cells[1], " `"))] = row{words(cells[3]), words(cells[4])}
	}
	return found
}

func words(cell string) []string {
	var all []string
	for _, m := range word.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// histories change a running job into one that has been at its step for some time.
var histories = map[string]func(*Job){
	"new":           func(*Job) {},
	"overdue":       func(j *Job) { j.Since = j.Since.Add(-Usual.Limit) },
	"all away":      func(j *Job) { j.Since, j.AwaySince = j.Since.Add(-2*Usual.Limit), j.Since.Add(-2*Usual.Limit) },
	"unreliable":    func(j *Job) { j.UnreliableSince = j.Since.Add(-Usual.Unreliable) },
	"seen once":     func(j *Job) { j.SeenAt = j.Since },
	"moved twice":   func(j *Job) { j.Moves = 2 },
	"many faults":   func(j *Job) { j.Faults = maxFaults - 1 },
	"verified late": func(j *Job) { j.PublishedAt = j.Since.Add(-time.Hour) },
}

// explored is every way on that there is from every step.
func explored(t testing.TB) map[Stage]row {
	next, stops := map[Stage]map[string]bool{}, map[Stage]map[string]bool{}
	put := func(in map[Stage]map[string]bool, from Stage, what string) {
		if in[from] == nil {
			in[from] = map[string]bool{}
		}
		in[from][what] = true
	}
	for _, way := range waysToEachStep {
		for _, change := range histories {
			for _, o := range observations {
				j := sees(t, fresh(), way...)
				now := j.NextAttemptAt.Add(time.Minute)
				j, _ = Begin(j, now)
				change(&j)
				after, _ := Usual.Advance(j, o, at(now))
				if after.Stage != j.Stage {
					put(next, j.Stage, string(after.Stage))
				}
				if after.Status == Failed {
					put(stops, j.Stage, string(Failed))
				}
				if after.Required != "" {
					put(stops, j.Stage, string(after.Required))
				}
			}
		}
	}
	found := map[Stage]row{
		StageQueued: {[]string{string(StagePlan)}, nil},
		StageDone:   {nil, nil},
	}
	for stage := range stops {
		found[stage] = row{slices.Sorted(maps.Keys(next[stage])), slices.Sorted(maps.Keys(stops[stage]))}
	}
	return found
}

func TestThePageHoldsEveryWayThatThereIs(t *testing.T) {
	if diff := cmp.Diff(explored(t), rows(t), cmp.AllowUnexported(row{})); diff != "" {
		t.Fatalf("%s (-code +page):\n%s", page, diff)
	}
}

func TestThePageSaysWhatAPersonDoes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for code, says := range advice {
		if !strings.Contains(all, "| `"+string(code)+"` | "+says+" |") {
			t.Errorf("the page does not say:\n| `%s` | %s |", code, says)
		}
	}
	codes := map[string]bool{}
	for _, r := range rows(t) {
		for _, stop := range r.stops {
			codes[stop] = true
		}
	}
	if len(codes) != len(advice)+1 { // and failed
		t.Errorf("the table has %d codes, %d are known", len(codes)-1, len(advice))
	}
	for _, s := range []Status{Queued, Running, Waiting, ActionRequired, Completed, Failed} {
		if !strings.Contains(all, "| `"+string(s)+"` |") {
			t.Errorf("the page does not explain %s", s)
		}
	}
}

// TestThePageHoldsTheTimetable keeps its figures those of the code.
func TestThePageHoldsTheTimetable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"15 seconds", "15 minutes", "10 seconds", "an hour", "48 hours"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if Usual != (Timetable{15 * time.Second, 15 * time.Minute, 10 * time.Second, time.Hour, time.Hour, 48 * time.Hour}) {
		t.Error("the timetable is another: change the page and this test with it")
	}
}
