// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
)

// rateLimitExceeded is the condition of the rows that TestRowsOfTheMatrixAreAnswered skips, because
// its service has no rate limits. TestEveryRateLimitIsEnforced covers these rows.
const rateLimitExceeded = "rate_limit_exceeded"

// undocumentedRequests are the requests of the matrix that the OpenAPI document does not describe.
var undocumentedRequests = []string{"GET /openapi.json", "GET /debug/pprof/", "GET /v1/no-such-path", "PUT /v1/tenants"}

// bucketsOutsideMatrix are the rate-limit buckets of the operations that are not in the matrix.
// Tests of package httpapi cover these operations: TestEveryOperationChecksTheKey, keys_test.go and
// webhooks_test.go.
var bucketsOutsideMatrix = map[string]string{
	"GET /v1/me": "read", "GET /v1/keys": "read",
	"POST /v1/keys": "write", "DELETE /v1/keys/{key_id}": "write", "POST /v1/keys/{key_id}/rotate": "write",
	"GET /v1/webhooks": "read", "GET /v1/webhooks/{webhook_id}": "read", "GET /v1/webhooks/{webhook_id}/deliveries": "read",
	"POST /v1/webhooks": "write", "PATCH /v1/webhooks/{webhook_id}": "write", "DELETE /v1/webhooks/{webhook_id}": "write",
	"POST /v1/webhooks/{webhook_id}/rotate-secret": "write", "POST /v1/webhooks/{webhook_id}/test": "write",
	"POST /v1/webhooks/{webhook_id}/replay": "write", "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": "write",
}

// matrixRow is one line of the authorization matrix, testdata/authz-matrix.csv: an operation, a
// condition under which it is called, and the expected response. If twinCondition is set, a 404
// must equal the response of the same operation under that condition.
type matrixRow struct {
	id, condition, status, code, twinCondition, maxCalls, allowedWrites string
	op                                                                  operation
}

// readMatrix returns the rows of the matrix that apply to this service.
func readMatrix(t *testing.T) (rows []matrixRow) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(fileText(t, "testdata/authz-matrix.csv"))).ReadAll()
	must(t, err)
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	for _, line := range lines[1:] {
		if line[column["applies"]] == "yes" {
			rows = append(rows, matrixRow{line[column["case_id"]], line[column["condition"]], line[column["expected_status"]], line[column["expected_code"]], line[column["must_match_twin"]],
				line[column["provider_calls_max"]], line[column["db_writes_allowed"]], operation{line[column["method"]], line[column["path"]]}}.withDecisions())
		}
	}
	if len(rows) < 890 {
		t.Fatalf("only %d rows of the matrix apply, want at least 890", len(rows))
	}
	return rows
}

// TestEveryOperationIsInTheMatrix checks that each operation has rows or is in
// bucketsOutsideMatrix, and that each row has a known route. The tests that testedElsewhere returns
// must exist.
func TestEveryOperationIsInTheMatrix(t *testing.T) {
	t.Parallel()
	d, err := publishedDocument()
	must(t, err)
	documented, listed := map[string]bool{}, map[string]bool{}
	for _, row := range readMatrix(t) {
		listed[row.op.method+" "+row.op.path] = true
	}
	for _, op := range d.operations {
		name := op.method + " " + op.path
		documented[name] = true
		if !listed[name] && bucketsOutsideMatrix[name] == "" {
			t.Errorf("%s has no rows in the matrix", name)
		}
	}
	for name := range listed {
		if !documented[name] && !slices.Contains(undocumentedRequests, name) && name != consentCallback {
			t.Errorf("the matrix has %s, the document does not", name)
		}
	}
	tests := declaredTests(t)
	if !tests[provisioningTest] {
		t.Errorf("the test %s does not exist", provisioningTest)
	}
	for _, condition := range slices.Sorted(maps.Keys(conditionTests)) {
		if !tests[conditionTests[condition]] {
			t.Errorf("the test of %s is %s, which does not exist", condition, conditionTests[condition])
		}
	}
}

// TestRowsOfTheMatrixAreAnswered sends the requests of the rows that no other test covers. It
// checks the response, the provider calls, the database and the SQL statements that the service
// ran. A soak uses the rows of all operations, other runs use the rows of 10 random operations.
func TestRowsOfTheMatrixAreAnswered(t *testing.T) {
	t.Parallel()
	var names []string
	for _, row := range readMatrix(t) {
		names = append(names, row.op.method+" "+row.op.path)
	}
	slices.Sort(names)
	chosen := soak.Sample(t, slices.Compact(names), 10)
	f := newMatrixFixture(t)
	run := &matrixRun{matrixFixture: f, answers: map[string][]string{}, traces: map[string]matrixRow{}}
	run.drainJournals(t)
	for _, row := range readMatrix(t) {
		name := row.op.method + " " + row.op.path
		if name == consentCallback || row.condition == rateLimitExceeded || row.testedElsewhere() != "" || !slices.Contains(chosen, name) {
			continue
		}
		t.Run(row.id+" "+row.condition, func(t *testing.T) { run.runRow(t, row) })
	}
	if soak.Enabled() && run.rows < 500 {
		t.Errorf("only %d rows ran, want at least 500", run.rows)
	}
	run.compareStatements(t)
}

// matrixRun sends the requests of the rows and stores the answers.
type matrixRun struct {
	*matrixFixture
	rows    int
	answers map[string][]string  // keyed by operation and condition
	traces  map[string]matrixRow // the rows, keyed by the trace ids of their requests
	latest  databaseSnapshot     // the state after the last request
}

// runRow sends the requests of a row and checks the answers and the effects of the requests.
func (r *matrixRun) runRow(t *testing.T, row matrixRow) {
	r.rows++
	attempts := r.attempts(row.op, row.condition)
	if len(attempts) == 0 {
		t.Fatal("no request is defined for this condition")
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
		r.drainJournals(t)
		before := r.matrixFixture.snapshot(t, r.latest)
		got := r.send(t, row.op, a)
		r.latest = r.matrixFixture.snapshot(t, before)
		calls := r.drainJournals(t)
		r.traces[got.header.Get("X-Request-ID")] = row
		row.checkAnswer(t, got, original)
		if row.maxCalls == "0" && calls > 0 {
			t.Errorf("providers were called %d times, want no calls", calls)
		}
		if row.allowedWrites == "none" && r.latest.rows != before.rows {
			t.Errorf("the request changed the rows of the database from\n%s\nto\n%s", before.rows, r.latest.rows)
		}
		for _, foreignValue := range r.otherAccountValues() {
			if a.account.id != r.b.id && foreignValue != "" && bytes.Contains(bytes.ToLower(got.raw), []byte(strings.ToLower(foreignValue))) {
				t.Errorf("the answer contains %s of a different account: %s", foreignValue, got.raw)
			}
		}
		r.answers[row.key(row.condition)] = append(r.answers[row.key(row.condition)], got.comparable())
	}
	answers := r.answers[row.key(row.condition)]
	if row.twinCondition != "" {
		answers = append(r.answers[row.key(row.twinCondition)], answers...)
	}
	for _, answer := range answers {
		if row.status == "404" && answer != answers[0] {
			t.Errorf("the answers are\n%s\nand\n%s, want equal answers", answer, answers[0])
		}
	}
}

// key identifies a condition of the row's operation.
func (row matrixRow) key(condition string) string {
	return row.op.method + " " + row.op.path + " " + condition
}

// checkAnswer checks the response to one request. If the row expects a replay, got must repeat
// original.
func (row matrixRow) checkAnswer(t *testing.T, got, original reply) {
	t.Helper()
	status, code := http.StatusText(got.status), got.code()
	switch row.status {
	case "original":
		if got.status != original.status || !bytes.Equal(got.raw, original.raw) || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s\nis not a replay of %d %s", got.status, got.raw, original.status, original.raw)
		}
	case "200-class", "200":
		if got.status != http.StatusOK {
			t.Errorf("the request is answered %d %s, want 200: %s", got.status, status, got.raw)
		}
	default:
		if gotStatus := strconv.Itoa(got.status); gotStatus != row.status || row.code != "" && code != row.code {
			t.Errorf("the request is answered %d %q, want %s %q: %s", got.status, code, row.status, row.code, got.raw)
		}
	}
	if contentType := got.header.Get("Content-Type"); !strings.HasPrefix(contentType, "application/json") && contentType != "application/jsonl" && !strings.HasPrefix(contentType, "application/problem+json") {
		t.Errorf("the request is answered with the content type %q, want JSON", contentType)
	}
	if got.header.Get("X-Request-ID") == "" {
		t.Error("the answer has no X-Request-ID")
	}
}

// send sends the request of an attempt. The request has the same random value as its request id and
// as its trace id, so that runRow can store the trace id.
func (f *matrixFixture) send(t *testing.T, op operation, a attempt) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), op.method, f.owner.ready.APIURL+fillPath(a.path, a.ids), strings.NewReader(a.body))
	must(t, err)
	trace := newTraceID()
	request.Header = http.Header{"Authorization": a.auth, "X-Request-Id": {trace}, "Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}
	if a.auth == nil {
		request.Header.Set("Authorization", "Bearer "+a.account.key)
	}
	if op.method != http.MethodGet {
		request.Header["Idempotency-Key"] = a.idempotencyKeys
	}
	if a.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	must(t, err)
	got := parseReply(answer, raw)
	if err := checkDocumented(t, op.method, request.URL.EscapedPath(), got); err != nil {
		t.Errorf("the answer %d differs from the OpenAPI document: %v\n%s", got.status, err, raw)
	}
	return got
}

// consentCallback is the route of the consent callback in the matrix. The service has a different
// route for the callback, so TestRowsOfTheMatrixAreAnswered skips these rows.
const consentCallback = "GET /connect/callback"

// conditionTests names the tests of the conditions that a single request cannot check.
var conditionTests = map[string]string{
	"response_not_stored_in_idempotency_table": "TestNoSecretLeaks",
	"same_key_in_flight":                       "TestConcurrentRequestsWithOneKeyRunOnce",
}

// withDecisions corrects the expectation of a row if a later decision overrides the matrix.
func (row matrixRow) withDecisions() matrixRow {
	name := row.op.method + " " + row.op.path
	addsResources := slices.Contains(provisioningOps, name) ||
		slices.Contains([]string{"POST /v1/tenants/{tenant_id}/domains", "POST /v1/tenants/{tenant_id}/mailboxes"}, name)
	switch {
	case row.condition == "malformed_idempotency_key":
		row.code = "invalid_idempotency_key" // the published name
	case row.condition == "same_key_in_flight":
		row.code = "idempotency_request_in_progress" // the published name
	case row.condition == "over_ceiling_after_downgrade" && !addsResources:
		row.status, row.code = "200-class", "" // only operations that make the account larger are refused
		row.maxCalls, row.allowedWrites = "endpoint", "as_documented"
	case row.condition == "valid_key_user_email_of_other_account":
		row.status, row.code = "403", "access_denied" // the key is valid, the address belongs to a different account
	}
	return row
}

func newTraceID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// declaredTests returns the names of the tests of this package and of adapters/httpapi.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../../adapters/httpapi/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no test files match %s: %v", pattern, err)
		}
		for _, name := range files {
			for _, m := range testName.FindAllStringSubmatch(fileText(t, name), -1) {
				found[m[1]] = true
			}
		}
	}
	return found
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// compareStatements checks that ids of a different account and malformed ids lead to the same SQL
// statements as unknown ids. Otherwise a caller could learn from the duration that an id exists. It
// also checks that the service does not search for malformed API keys in the database.
func (r *matrixRun) compareStatements(t *testing.T) {
	t.Helper()
	// The service exports spans in the order in which they end. When it has exported a span of this
	// last request, it has exported the statements of all previous requests.
	list := operation{http.MethodGet, "/v1/tenants"}
	lastTrace := r.send(t, list, r.ownRequest(r.a, list)).header.Get("X-Request-ID")
	var spans []receivedSpan
	r.owner.withT(t).eventually("the spans of the last request arrive", func() bool {
		spans, _ = r.spans.received(t)
		return slices.ContainsFunc(spans, func(span receivedSpan) bool { return span.trace() == lastTrace })
	})
	slices.SortFunc(spans, func(a, b receivedSpan) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	statementsOfTrace := map[string][]string{}
	for _, span := range spans {
		for _, a := range span.GetAttributes() {
			if key := a.GetKey(); key == "db.statement" || key == "db.query.text" {
				statementsOfTrace[span.trace()] = append(statementsOfTrace[span.trace()], a.GetValue().GetStringValue())
			}
		}
	}
	sequencesByKey, compared := map[string]map[string]bool{}, 0
	for trace, row := range r.traces {
		statements := strings.Join(statementsOfTrace[trace], "\n")
		if row.status == "401" && strings.HasPrefix(row.condition, "bad_key_format") && statements != "" {
			t.Errorf("%s: the service searches for a malformed API key: %s", row.id, statements)
		}
		if row.status != "404" || row.op.path == "/debug/pprof/" {
			continue
		}
		baseKey := row.key(row.twinCondition)
		if row.twinCondition == "" {
			baseKey = row.key(row.condition)
		}
		if sequencesByKey[baseKey] == nil {
			sequencesByKey[baseKey] = map[string]bool{}
		}
		sequencesByKey[baseKey][statements] = true
		compared++
	}
	for baseKey, sequences := range sequencesByKey {
		if len(sequences) != 1 {
			t.Errorf("%s: %d different sequences of SQL statements, want 1:", baseKey, len(sequences))
			for statements := range sequences {
				t.Logf("\n%s\n", statements)
			}
		}
		if sequences[""] {
			t.Errorf("%s: a request ran no SQL statement", baseKey)
		}
	}
	if compared == 0 || soak.Enabled() && compared < 100 {
		t.Errorf("only %d answers were compared, want at least 1, and 100 in a soak", compared)
	}
}

// provisioningOps are operations that queue jobs. provisioningTest, and not the matrix test, covers
// their successes and replays.
var provisioningOps = []string{"POST /v1/domains/{domain_id}/dns/provision", "POST /v1/dns/provisioning-jobs/{job_id}/retry"}

const provisioningTest = "TestProvisioningRunsOncePerKey"

// testedElsewhere returns the test that covers the condition of a row, or "" if the matrix test
// does.
func (row matrixRow) testedElsewhere() string {
	succeeds := slices.Contains([]string{"legacy_entitlement_trial_key", "same_key_value_used_by_other_account", "replay_own_key",
		"same_key_other_fingerprint", "replay_with_lapsed_plan", "replay_with_rotated_key"}, row.condition)
	if succeeds && slices.Contains(provisioningOps, row.op.method+" "+row.op.path) {
		return provisioningTest
	}
	return conditionTests[row.condition]
}

// addWaitingRuns adds a provisioning run to each account. The job of the run requires an action by
// a person, so no worker processes it.
func addWaitingRuns(t *testing.T, file string, owners ...accountResources) {
	t.Helper()
	store, err := bunstore.Open(t.Context(), "sqlite://"+file, bunstore.Options{})
	must(t, err)
	defer func() { _ = store.Close() }()
	for i, resources := range owners {
		now := time.Now().UTC()
		runID, jobID := ident.New(now, [ident.EntropyBytes]byte{1, byte(i)}), ident.New(now, [ident.EntropyBytes]byte{2, byte(i)})
		job := provisioning.NewJob(jobID, runID, access.AccountID(resources.id), resources.ids["domain_id"], tenant.GUID(resources.guid), resources.ids["domain_name"], now)
		job.Status, job.RequiredAction, job.Message = provisioning.ActionRequired, provisioning.DomainUnavailable, "It belongs to another tenant."
		run := provisioning.Run{ID: runID, Account: job.Account, TotalDomains: 1, CreatedAt: now}
		must(t, store.CreateRun(t.Context(), run, []provisioning.Job{job}, nil))
		resources.ids["run_id"], resources.ids["job_id"] = runID, jobID
	}
}
