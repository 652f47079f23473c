// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
