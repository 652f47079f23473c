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

// shelf is a state that control calls change.
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

func shelved(t *testing.T) (*simulate.File[shelf], string) {
	t.Helper()
	dir := t.TempDir()
	f, err := simulate.OpenFile(filepath.Join(dir, "shelf.json"), shelf{Books: map[string]*book{}})
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

// answered is the status of a control call with a body.
func answered(body string, call http.HandlerFunc) int {
	out := httptest.NewRecorder()
	call(out, httptest.NewRequest(http.MethodPut, "/_control/books", strings.NewReader(body)))
	return out.Code
}

// TestAmend changes what is given and leaves the rest; a call that is not
// understood makes and changes nothing.
func TestAmend(t *testing.T) {
	f, _ := shelved(t)
	put := func(name, body string) int {
		return answered(body, func(w http.ResponseWriter, r *http.Request) {
			simulate.Amend(w, r, f, func(s *shelf) any { return s.book(name) })
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

// TestChangeAndAlter: what is said of a body that makes no sense, of what is
// not there, and of a disk that does not take it.
func TestChangeAndAlter(t *testing.T) {
	f, dir := shelved(t)
	change := func(w http.ResponseWriter, r *http.Request) {
		var in book
		simulate.Change(w, r, f, &in, func(s *shelf) { s.Books["a"] = &in })
	}
	drop := func(w http.ResponseWriter, _ *http.Request) {
		simulate.Alter(w, f, "no such book", func(s *shelf) bool {
			_, there := s.Books["a"]
			delete(s.Books, "a")
			return there
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
		if got := answered(step.body, step.call); got != step.status {
			t.Errorf("%s: %d", step.what, got)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := answered(`{}`, change); got != http.StatusInternalServerError {
		t.Errorf("on a broken disk: %d", got)
	}
}

// TestLater: two changes are never alike, whatever the clock does.
func TestLater(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 400_000, time.FixedZone("", 3600))
	for before, want := range map[string]string{
		"":                         "2026-11-21T11:00:00.000Z",
		"yesterday":                "2026-11-21T11:00:00.000Z",
		"2026-11-21T10:59:59.999Z": "2026-11-21T11:00:00.000Z",
		"2026-11-21T11:00:00.000Z": "2026-11-21T11:00:00.001Z",
		"2027-01-01T00:00:00.000Z": "2027-01-01T00:00:00.001Z",
	} {
		if got := simulate.Later(before, now); got != want {
			t.Errorf("after %q: %s", before, got)
		}
	}
}

func TestNameOf(t *testing.T) {
	for address, want := range map[string]string{"ann.lee@a.example": "Ann Lee", "BOB_king-3@a.example": "Bob King 3", "émile+sales@a.example": "Émile Sales", "@": ""} {
		if got := simulate.NameOf(address); got != want {
			t.Errorf("%s is %q", address, got)
		}
	}
}
