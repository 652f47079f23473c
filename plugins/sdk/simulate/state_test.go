// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

var ignoreTime = cmpopts.IgnoreFields(simulate.Entry{}, "At")

func TestJournalSurvivesAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	s := startSimulator(t, dir)
	s.planFault(`{"kind":"status","status":418,"times":1,"match":"GET /b"}`)
	s.planFault(`{"kind":"drop_before","times":1,"match":"GET /c"}`)
	s.call("POST", "/a?secret=1", "buy")
	s.call("GET", "/b", "look")
	s.call("GET", "/c", "look")
	want := []simulate.Entry{
		{Method: "POST", Path: "/a", Operation: "buy", Status: 201, Write: true},
		{Method: "GET", Path: "/b", Operation: "look", Status: 418},
		{Method: "GET", Path: "/c", Operation: "look"},
	}
	if diff := cmp.Diff(want, s.journal(), ignoreTime); diff != "" {
		t.Fatalf("the journal (-want +got):\n%s", diff)
	}

	// A process that is killed while it writes leaves an incomplete line.
	path := filepath.Join(dir, "calls.jsonl")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"n":3,"call":{"meth`); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	restarted := startSimulator(t, dir)
	restarted.call("GET", "/d", "later")
	want = append(want, simulate.Entry{Method: "GET", Path: "/d", Operation: "later", Status: 201})
	if diff := cmp.Diff(want, startSimulator(t, dir).journal(), ignoreTime); diff != "" {
		t.Fatalf("the journal after a restart (-want +got):\n%s", diff)
	}
}

// TestClearedJournalIgnoresLateStatuses checks a call that arrived before the journal was cleared
// and is answered afterwards. Its status must not be stored in a later entry.
func TestClearedJournalIgnoresLateStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		simulator := newSimulator(t, dir)
		simulator.call("GET", "/before", "")
		simulator.planFault(`{"kind":"delay","delay_ms":60,"times":1}`)
		answered := make(chan struct{})
		go func() { simulator.call("GET", "/delayed", ""); close(answered) }()
		synctest.Wait()
		if calls := simulator.journal(); len(calls) != 2 {
			t.Fatalf("the journal is %v, want two calls", calls)
		}
		simulator.call("DELETE", "/_control/calls", "")
		if calls := simulator.journal(); len(calls) != 0 {
			t.Fatalf("the cleared journal is %v, want no calls", calls)
		}
		simulator.call("POST", "/after", "")
		<-answered
		want := []simulate.Entry{{Method: "POST", Path: "/after", Status: 201, Write: true}}
		for _, opened := range []*testSimulator{simulator, newSimulator(t, dir)} {
			if diff := cmp.Diff(want, opened.journal(), ignoreTime); diff != "" {
				t.Fatalf("the journal (-want +got):\n%s", diff)
			}
		}
	})
}

func TestFileKeepsChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	type state struct{ Name string }
	file, err := simulate.OpenFile(path, state{"fresh"})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Do(func(s *state) { s.Name = "changed" }); err != nil {
		t.Fatal(err)
	}
	reopened, err := simulate.OpenFile(path, state{"fresh"})
	if err != nil {
		t.Fatal(err)
	}
	reopened.View(func(s *state) {
		if s.Name != "changed" {
			t.Errorf("after a restart the name is %q, want changed", s.Name)
		}
	})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the mode of the state file is %v, want 0600", mode)
	}
}

// TestFileForgetsAChangeThatIsNotSaved makes saving fail. The File must then have the value that
// was last saved.
func TestFileForgetsAChangeThatIsNotSaved(t *testing.T) {
	type state struct{ Name string }
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := simulate.OpenFile(filepath.Join(folder, "state.json"), state{"saved"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := file.Do(func(s *state) { s.Name = "lost" }); err == nil || !strings.Contains(err.Error(), "save state") {
		t.Errorf("got %v, want a failure to save the state", err)
	}
	file.View(func(s *state) {
		if s.Name != "saved" {
			t.Errorf("the value is %q, want saved", s.Name)
		}
	})
}

// TestOpenStateStartsFreshOrFails checks a new folder, an invalid URL and a malformed state file.
func TestOpenStateStartsFreshOrFails(t *testing.T) {
	fresh := func(now time.Time) time.Time { return now }
	dir, before := t.TempDir(), time.Now().Truncate(0)
	kit, file, err := simulate.OpenState("shop", "state.json", simulate.Options{URL: "http://127.0.0.1:4000", DataDir: dir}, fresh)
	if err != nil || kit.Host() != "127.0.0.1:4000" {
		t.Fatalf("a new folder: %v %v, want the host 127.0.0.1:4000", kit, err)
	}
	file.View(func(began *time.Time) {
		if began.Before(before) || began.After(kit.Now()) {
			t.Errorf("the state began at %s, want a time between %s and %s", began, before, kit.Now())
		}
	})
	if _, _, err := simulate.OpenState("shop", "state.json", simulate.Options{URL: "http://[", DataDir: t.TempDir()}, fresh); err == nil {
		t.Error("an invalid URL is accepted, want an error")
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := simulate.OpenState("shop", "state.json", simulate.Options{DataDir: dir}, fresh); err == nil {
		t.Error("a malformed state file is accepted, want an error")
	}
}

func TestDiskErrorIsReported(t *testing.T) {
	dir := t.TempDir()
	s := startSimulator(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if status, _ := s.call("POST", "/_control/clock", `{"advance":"1h"}`); status != http.StatusInternalServerError {
		t.Errorf("the state cannot be saved, and the status is %d, want 500", status)
	}
}
