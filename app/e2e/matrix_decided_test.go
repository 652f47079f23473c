// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// connectPages is where the matrix supposes the callback of the consent.
const connectPages = "GET /connect/callback"

// elsewhere are conditions that need more than one request and an answer, with
// the tests that make them.
var elsewhere = map[string]string{
	"response_not_stored_in_idempotency_table": "TestNoSecretLeaks",
	"same_key_in_flight":                       "TestOfManyRequestsOneRuns",
}

// decided is what docs and specification decided otherwise than the matrix,
// which is older. Decisions win.
func (row matrixRow) decided() matrixRow {
	name := row.op.method + " " + row.op.path
	grows := slices.Contains(provisioningOps, name) ||
		slices.Contains([]string{"POST /v1/tenants/{tenant_id}/domains", "POST /v1/tenants/{tenant_id}/mailboxes"}, name)
	switch {
	case row.condition == "malformed_idempotency_key":
		row.code = "invalid_idempotency_key" // the published name
	case row.condition == "same_key_in_flight":
		row.code = "idempotency_request_in_progress" // the published name
	case row.condition == "over_ceiling_after_downgrade" && !grows:
		row.status, row.code = "200-class", "" // only what would make the account larger is refused
		row.calls, row.writes = "endpoint", "as_documented"
	case row.condition == "valid_key_user_email_of_other_account":
		row.status, row.code = "403", "access_denied" // the key is good, the address is not its account's
	}
	return row
}

func itoa(n int) string { return strconv.Itoa(n) }

func newTrace() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// declared are the tests of this package and of the API's.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../../adapters/httpapi/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal("no tests: ", err)
		}
		for _, name := range files {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testName.FindAllSubmatch(source, -1) {
				found[string(m[1])] = true
			}
		}
	}
	return found
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// compareStatements holds the statements that foreign and malformed ids lead to
// against those of unknown ones: other queries would take another time.
func (r *matrixRun) compareStatements(t *testing.T) {
	t.Helper()
	if err := r.process.stop(); err != nil { // which sends the last spans
		t.Fatal(err)
	}
	spans, _ := r.journal.all(t)
	slices.SortFunc(spans, func(a, b exported) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	ran := map[string][]string{}
	for _, s := range spans {
		for _, a := range s.GetAttributes() {
			if key := a.GetKey(); key == "db.statement" || key == "db.query.text" {
				ran[s.trace()] = append(ran[s.trace()], a.GetValue().GetStringValue())
			}
		}
	}
	byRow, compared := map[string]map[string]bool{}, 0
	for trace, row := range r.traces {
		statements := strings.Join(ran[trace], "\n")
		if row.status == "401" && strings.HasPrefix(row.condition, "bad_key_format") && statements != "" {
			t.Errorf("%s: a key of another form is looked up: %s", row.id, statements)
		}
		if row.status != "404" || row.op.path == "/debug/pprof/" {
			continue
		}
		base := row.key(row.twin)
		if row.twin == "" {
			base = row.key(row.condition)
		}
		if byRow[base] == nil {
			byRow[base] = map[string]bool{}
		}
		byRow[base][statements] = true
		compared++
	}
	for base, all := range byRow {
		if len(all) != 1 {
			t.Errorf("%s: %d ways through the database:", base, len(all))
			for statements := range all {
				t.Logf("\n%s\n", statements)
			}
		}
		if all[""] {
			t.Errorf("%s: no statement was seen", base)
		}
	}
	if compared == 0 || soak && compared < 100 {
		t.Errorf("only %d answers were compared", compared)
	}
}
