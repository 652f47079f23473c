// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/csv"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// exhausted is the condition that TestEveryBucketEnds shows, with limits on.
const exhausted = "rate_limit_exceeded"

// routes are rows about paths that are no operations.
var routes = []string{"GET /openapi.json", "GET /debug/pprof/", "GET /v1/no-such-path", "PUT /v1/tenants"}

// matrixRow is one line of the authorization matrix.
type matrixRow struct {
	id, condition, status, code, twin, calls, writes string
	op                                               operation
}

// matrix reads the rows that apply.
func matrix(t *testing.T) (rows []matrixRow) {
	t.Helper()
	raw, err := os.ReadFile("testdata/authz-matrix.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range lines[0] {
		at[name] = i
	}
	for _, l := range lines[1:] {
		if l[at["applies"]] == "yes" {
			rows = append(rows, matrixRow{l[at["case_id"]], l[at["condition"]], l[at["expected_status"]], l[at["expected_code"]], l[at["must_match_twin"]],
				l[at["provider_calls_max"]], l[at["db_writes_allowed"]], operation{l[at["method"]], l[at["path"]]}}.decided())
		}
	}
	if len(rows) < 890 {
		t.Fatalf("only %d rows", len(rows))
	}
	return rows
}

// TestEveryOperationIsInTheMatrix: an operation without rows is noticed; so is a
// row that belongs to nothing.
func TestEveryOperationIsInTheMatrix(t *testing.T) {
	t.Parallel()
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	exist, listed := map[string]bool{}, map[string]bool{}
	for _, row := range matrix(t) {
		listed[row.op.method+" "+row.op.path] = true
	}
	for _, op := range d.operations {
		name := op.method + " " + op.path
		exist[name] = true
		if !listed[name] {
			t.Errorf("%s has no rows in the matrix", name)
		}
	}
	for name := range listed {
		if !exist[name] && !slices.Contains(routes, name) && name != connectPages {
			t.Errorf("the matrix knows %s, the document does not", name)
		}
	}
	tests := declared(t)
	if !tests[queuedOnce] {
		t.Errorf("there is no %s", queuedOnce)
	}
	for _, condition := range slices.Sorted(maps.Keys(elsewhere)) {
		if !tests[elsewhere[condition]] {
			t.Errorf("%s is said to be shown by %s, which does not exist", condition, elsewhere[condition])
		}
	}
}

// TestAuthorizationMatrix sends the requests of every row that applies, and checks the
// answer, the mail platform, the database and the statements that the service ran.
// Outside a soak it takes the rows of a sample of the operations.
func TestAuthorizationMatrix(t *testing.T) {
	t.Parallel()
	var names []string
	for _, row := range matrix(t) {
		names = append(names, row.op.method+" "+row.op.path)
	}
	slices.Sort(names)
	chosen := sample(t, slices.Compact(names), 10)
	p := populate(t)
	run := &matrixRun{population: p, answers: map[string][]string{}, traces: map[string]matrixRow{}}
	run.asked(t)
	for _, row := range matrix(t) {
		name := row.op.method + " " + row.op.path
		if name == connectPages || row.condition == exhausted || row.apart() != "" || !slices.Contains(chosen, name) {
			continue
		}
		t.Run(row.id+" "+row.condition, func(t *testing.T) { run.row(t, row) })
	}
	if soak && run.rows < 500 {
		t.Errorf("only %d rows ran", run.rows)
	}
	run.compareStatements(t)
}

type matrixRun struct {
	*population
	rows    int
	answers map[string][]string  // by operation and condition
	traces  map[string]matrixRow // by trace id
	latest  sight
}

func (r *matrixRun) row(t *testing.T, row matrixRow) {
	r.rows++
	attempts := r.attempts(row.op, row.condition)
	if len(attempts) == 0 {
		t.Fatal("no request is known for this condition")
	}
	for _, a := range attempts {
		var original reply
		if row.status == "original" {
			original = r.send(t, row.op, a)
			a.prepare = nil
		}
		if a.prepare != nil {
			a.prepare(t, a)
		}
		r.asked(t)
		before := r.population.sees(t, r.latest)
		got := r.send(t, row.op, a)
		r.latest = r.population.sees(t, before)
		calls := r.asked(t)
		r.traces[got.header.Get("X-Request-ID")] = row
		row.judge(t, got, original)
		if row.calls == "0" && calls > 0 {
			t.Errorf("the mail platform was asked %d times", calls)
		}
		if row.writes == "none" && r.latest.rows != before.rows {
			t.Errorf("rows have changed from\n%s\nto\n%s", before.rows, r.latest.rows)
		}
		for _, theirs := range r.foreign() {
			if a.by.id != r.b.id && theirs != "" && bytes.Contains(bytes.ToLower(got.raw), []byte(strings.ToLower(theirs))) {
				t.Errorf("%s belongs to somebody else: %s", theirs, got.raw)
			}
		}
		r.answers[row.key(row.condition)] = append(r.answers[row.key(row.condition)], got.bare())
	}
	all := r.answers[row.key(row.condition)]
	if row.twin != "" {
		all = append(r.answers[row.key(row.twin)], all...)
	}
	for _, other := range all {
		if row.status == "404" && other != all[0] {
			t.Errorf("answered unlike its twin:\n%s\nand\n%s", other, all[0])
		}
	}
}

func (row matrixRow) key(condition string) string {
	return row.op.method + " " + row.op.path + " " + condition
}

// judge looks at the answer alone.
func (row matrixRow) judge(t *testing.T, got, original reply) {
	t.Helper()
	status, code := http.StatusText(got.status), got.code()
	switch row.status {
	case "original":
		if got.status != original.status || !bytes.Equal(got.raw, original.raw) || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s\nis no replay of %d %s", got.status, got.raw, original.status, original.raw)
		}
	case "200-class", "200":
		if got.status != http.StatusOK {
			t.Errorf("answered %d %s: %s", got.status, status, got.raw)
		}
	default:
		if want := itoa(got.status); want != row.status || row.code != "" && code != row.code {
			t.Errorf("answered %d %q, not %s %q: %s", got.status, code, row.status, row.code, got.raw)
		}
	}
	if kind := got.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") && !strings.HasPrefix(kind, "application/problem+json") {
		t.Errorf("answered as %q", kind)
	}
	if got.header.Get("X-Request-ID") == "" {
		t.Error("no X-Request-ID")
	}
}

// send makes the request of an attempt. Its id is that of its trace.
func (p *population) send(t *testing.T, op operation, a attempt) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), op.method, p.owner.ready.APIURL+fill(a.path, a.ids), strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	trace := newTrace()
	r.Header = http.Header{"Authorization": a.auth, "X-Request-Id": {trace}, "Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}
	if a.auth == nil {
		r.Header.Set("Authorization", "Bearer "+a.by.key)
	}
	if op.method != http.MethodGet {
		r.Header["Idempotency-Key"] = a.keys
	}
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := parsed(answer, raw)
	if err := documented(t, op.method, r.URL.EscapedPath(), got); err != nil {
		t.Errorf("%d: %v\n%s", got.status, err, raw)
	}
	return got
}
