// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// shelf is the state that the control calls of the tests change.
type shelf struct {
	Books map[string]*book `json:"books"`
}

type book struct {
	Title string   `json:"title"`
	Tags  []string `json:"tags"`
}

func (s *shelf) book(name string) *book {
	if s.Books[name] == nil {
		s.Books[name] = &book{Title: "Untitled"}
	}
	return s.Books[name]
}

func openShelf(t *testing.T) (*simulate.File[shelf], string) {
	t.Helper()
	dir := t.TempDir()
	f, err := simulate.OpenFile(filepath.Join(dir, "shelf.json"), shelf{Books: map[string]*book{}})
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

// statusOf returns the status of a control call with a body.
func statusOf(body string, call http.HandlerFunc) int {
	out := httptest.NewRecorder()
	call(out, httptest.NewRequest(http.MethodPut, "/_control/books", strings.NewReader(body)))
	return out.Code
}

// TestAmendKeepsOmittedMembers also checks that an invalid call creates and changes nothing.
func TestAmendKeepsOmittedMembers(t *testing.T) {
	f, _ := openShelf(t)
	put := func(name, body string) int {
		return statusOf(body, func(w http.ResponseWriter, r *http.Request) {
			simulate.MergeBody(w, r, f, func(s *shelf) any { return s.book(name) })
		})
	}
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"a", `{"tags":["x"]}`, http.StatusOK}, {"a", `{"title":"One"}`, http.StatusOK},
		{"a", `{"title":"Two","tags":["y"],"pages":7}`, http.StatusBadRequest}, {"b", `{"title":7}`, http.StatusBadRequest},
	} {
		if got := put(tt.name, tt.body); got != tt.status {
			t.Errorf("%s: %d", tt.body, got)
		}
	}
	f.View(func(s *shelf) {
		if a := s.Books["a"]; len(s.Books) != 1 || a.Title != "One" || len(a.Tags) != 1 || a.Tags[0] != "x" {
			t.Errorf("there are %v, a is %+v", s.Books, a)
		}
	})
}

// TestChangeAndAlterReportErrors checks an invalid body, a missing object and a failing disk.
func TestChangeAndAlterReportErrors(t *testing.T) {
	f, dir := openShelf(t)
	change := func(w http.ResponseWriter, r *http.Request) {
		var in book
		simulate.Change(w, r, f, &in, func(s *shelf) { s.Books["a"] = &in })
	}
	drop := func(w http.ResponseWriter, _ *http.Request) {
		simulate.ChangeOrNotFound(w, f, "no such book", func(s *shelf) bool {
			_, found := s.Books["a"]
			delete(s.Books, "a")
			return found
		})
	}
	for _, step := range []struct {
		what   string
		body   string
		call   http.HandlerFunc
		status int
	}{
		{"nonsense", `{"pages":7}`, change, http.StatusBadRequest},
		{"dropped before it is there", "", drop, http.StatusNotFound},
		{"put", `{"title":"One"}`, change, http.StatusOK},
		{"dropped", "", drop, http.StatusOK},
	} {
		if got := statusOf(step.body, step.call); got != step.status {
			t.Errorf("%s: %d", step.what, got)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := statusOf(`{}`, change); got != http.StatusInternalServerError {
		t.Errorf("on a broken disk: %d", got)
	}
}

// TestLaterNeverRepeatsAStamp also covers a clock that is behind the previous stamp.
func TestLaterNeverRepeatsAStamp(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 400_000, time.FixedZone("", 3600))
	for before, want := range map[string]string{
		"":                         "2026-11-21T11:00:00.000Z",
		"yesterday":                "2026-11-21T11:00:00.000Z",
		"2026-11-21T10:59:59.999Z": "2026-11-21T11:00:00.000Z",
		"2026-11-21T11:00:00.000Z": "2026-11-21T11:00:00.001Z",
		"2027-01-01T00:00:00.000Z": "2027-01-01T00:00:00.001Z",
	} {
		if got := simulate.NextStamp(before, now); got != want {
			t.Errorf("after %q: %s", before, got)
		}
	}
}

func TestNameOfBuildsADisplayName(t *testing.T) {
	for address, want := range map[string]string{"ann.lee@a.example": "Ann Lee", "BOB_king-3@a.example": "Bob King 3", "émile+sales@a.example": "Émile Sales", "@": ""} {
		if got := simulate.DisplayName(address); got != want {
			t.Errorf("%s is %q", address, got)
		}
	}
}
