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

// TestChangeReportsErrors checks an invalid body and a failing disk.
func TestChangeReportsErrors(t *testing.T) {
	dir := t.TempDir()
	file, err := simulate.OpenFile(filepath.Join(dir, "book.json"), book{})
	if err != nil {
		t.Fatal(err)
	}
	statusOf := func(body string) int {
		var in book
		answer := httptest.NewRecorder()
		simulate.Change(answer, httptest.NewRequest(http.MethodPut, "/_control/book", strings.NewReader(body)), file, &in, func(b *book) { *b = in })
		return answer.Code
	}
	if unknownMember, validBody := statusOf(`{"pages":7}`), statusOf(`{"title":"One"}`); unknownMember != http.StatusBadRequest || validBody != http.StatusOK {
		t.Errorf("an unknown member: %d, want 400; a valid body: %d, want 200", unknownMember, validBody)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := statusOf(`{}`); got != http.StatusInternalServerError {
		t.Errorf("on a broken disk: %d, want 500", got)
	}
}

// TestNextStampNeverRepeatsATime covers a running clock, and a clock that was set to a time before
// the previous change.
func TestNextStampNeverRepeatsATime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 400_000, time.FixedZone("", 3600))
	for before, want := range map[string]string{
		"":                         "2026-11-21T11:00:00.000Z",
		"yesterday":                "2026-11-21T11:00:00.000Z",
		"2026-11-21T10:59:59.999Z": "2026-11-21T11:00:00.000Z",
		"2026-11-21T11:00:00.000Z": "2026-11-21T11:00:00.001Z",
		"2027-01-01T00:00:00.000Z": "2027-01-01T00:00:00.001Z",
	} {
		if got := simulate.NextStamp(before, now); got != want {
			t.Errorf("the stamp after %q is %s, want %s", before, got, want)
		}
	}
}

func TestDisplayNameIsDerivedFromTheAddress(t *testing.T) {
	for address, want := range map[string]string{"ann.lee@a.example": "Ann Lee", "BOB_king-3@a.example": "Bob King 3", "émile+sales@a.example": "Émile Sales", "@": ""} {
		if got := simulate.DisplayName(address); got != want {
			t.Errorf("the display name of %s is %q, want %q", address, got, want)
		}
	}
}
