// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// messageIDs returns the distinct message ids of trace rows.
func messageIDs(rows []any) map[string]bool {
	ids := map[string]bool{}
	for _, row := range rows {
		id, _ := row.(jsonObject)["MessageTraceId"].(string)
		ids[id] = true
	}
	return ids
}

func TestTraceRowHasFields(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"recipients": 1, "at": time.Now().UTC().Add(-time.Hour).Truncate(time.Second)})
	row := testTenant.trace(jsonObject{})[0].(jsonObject)
	for name, want := range (jsonObject{"SenderAddress": "anna@" + domain, "Status": "Delivered", "Received@data.type": "System.DateTime", "Size@data.type": "System.Int32"}) {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	if received, _ := row["Received"].(string); !strings.HasSuffix(received, ".0000000Z") {
		t.Errorf("Received is %s, want a time that ends with .0000000Z", received)
	}
	testTenant.setBehaviour(jsonObject{"trace_bare": true})
	if received, _ := testTenant.trace(jsonObject{})[0].(jsonObject)["Received"].(string); !strings.HasSuffix(received, ".0000000") {
		t.Errorf("with trace_bare, Received is %s, want a time that ends with .0000000", received)
	}
}

// TestTraceHasOneRowPerRecipient checks that each message has a row for each recipient, that some
// rows are duplicated, and that the newest rows come first.
func TestTraceHasOneRowPerRecipient(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	now := time.Now().UTC()
	testTenant.sendMessages("anna@"+domain, 7, jsonObject{"at": now.Add(-2 * time.Minute)})
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"recipients": 12, "at": now.Add(-time.Minute)})
	rows := testTenant.trace(jsonObject{})
	pairs, last := map[string]int{}, ""
	for _, r := range rows {
		row := r.(jsonObject)
		pairs[row["MessageTraceId"].(string)+row["RecipientAddress"].(string)]++
		if at := row["Received"].(string); last != "" && at > last {
			t.Errorf("the row of %s comes after the older row of %s", at, last)
		} else {
			last = at
		}
	}
	if len(messageIDs(rows)) != 8 || len(pairs) != 13+12 || len(rows) <= len(pairs) {
		t.Errorf("%d rows, %d recipients of %d messages, want duplicated rows, 25 and 8", len(rows), len(pairs), len(messageIDs(rows)))
	}
	testTenant.setBehaviour(jsonObject{"trace_duplicates": false})
	if rows := testTenant.trace(jsonObject{}); len(rows) != len(pairs) {
		t.Errorf("%d rows without duplicates, want %d", len(rows), len(pairs))
	}
}

// TestTracePagesOverlap checks that only a warning announces more rows, and that the next page
// begins with the last row again.
func TestTracePagesOverlap(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.sendMessages("anna@"+domain, 20, jsonObject{"recipients": 2, "at": time.Now().UTC().Add(-time.Minute)})
	first := testTenant.mustRun("Get-MessageTraceV2", jsonObject{"ResultSize": 10})
	warning, _ := first.valueAt("@adminapi.warnings", 0).(string)
	if len(first.rows()) != 10 || first.valueAt("@odata.nextLink") != nil || !strings.Contains(warning, "There are more results") {
		t.Fatalf("the first page is %s, want 10 rows and only a warning about more rows", first.raw)
	}
	last := first.rows()[9].(jsonObject)
	second := testTenant.trace(jsonObject{"ResultSize": 10, "EndDate": last["Received"], "StartingRecipientAddress": last["RecipientAddress"]})
	if repeated := second[0].(jsonObject); repeated["RecipientAddress"] != last["RecipientAddress"] {
		t.Errorf("the second page begins with %v, want the recipient of %v", repeated, last)
	}
	allRows := testTenant.mustRun("Get-MessageTraceV2", jsonObject{"ResultSize": 5000})
	if warnings, _ := allRows.valueAt("@adminapi.warnings").([]any); len(messageIDs(allRows.rows())) != 20 || len(warnings) != 0 {
		t.Errorf("the page of all rows is %s, want 20 messages without a warning", allRows.raw)
	}
}

func TestTraceWindowIsLimited(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	now := time.Now().UTC()
	date := func(age time.Duration) string { return now.Add(-age).Format("2006-01-02T15:04:05") }
	const day = 24 * time.Hour
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"at": now.Add(-3 * day)})
	if got := testTenant.trace(jsonObject{}); len(got) != 0 {
		t.Errorf("the default range has %v, want no row that is three days old", got)
	}
	if got := testTenant.trace(jsonObject{"StartDate": date(4 * day), "EndDate": date(2*day) + "Z"}); len(messageIDs(got)) != 1 {
		t.Errorf("the range around the message has %v, want one message", got)
	}
	for name, params := range map[string]jsonObject{
		"more than 10 days":        {"StartDate": date(11 * day), "EndDate": date(0)},
		"the end before the start": {"StartDate": date(0), "EndDate": date(day)},
		"too long ago":             {"StartDate": date(95 * day), "EndDate": date(91 * day)},
		"a word as the date":       {"StartDate": "yesterday"},
		"too many rows":            {"ResultSize": 5001},
		"no rows":                  {"ResultSize": 0},
	} {
		if answer := testTenant.runCmdlet("Get-MessageTraceV2", params); answer.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", name, answer.status, answer.raw)
		}
	}
	if got := testTenant.trace(jsonObject{"StartDate": date(4 * day), "SenderAddress": []string{"ben@" + domain}}); len(got) != 0 {
		t.Errorf("the query for a different sender finds %v, want nothing", got)
	}
}

// TestTraceRowsAppearAfterLag checks that new rows are missing at first, and then pending.
func TestTraceRowsAppearAfterLag(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"trace_ms": 300_000})
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"recipients": 1})
	if got := testTenant.trace(jsonObject{}); len(got) != 0 {
		t.Errorf("the rows are visible at once: %v", got)
	}
	for _, want := range []string{"Pending", "Delivered"} {
		testTenant.control("POST", "/clock", jsonObject{"advance": "6m"})
		if got := testTenant.trace(jsonObject{}); len(messageIDs(got)) != 1 || got[0].(jsonObject)["Status"] != want {
			t.Errorf("the rows are %v, want one message that is %s", got, want)
		}
	}
}

// TestTraceShowsBlockedMailAsFailed checks that mail blocked by a rule has no destination address,
// and that mail refused by the recipient's server has a destination address.
func TestTraceShowsBlockedMailAsFailed(t *testing.T) {
	testTenant := newTenantWithRule(t)
	testTenant.sendMessages("anna@"+domain, 1)
	testTenant.sendMessages("ben@"+domain, 1, jsonObject{"bounced": true})
	for mailbox, toIP := range map[string]any{"anna@" + domain: nil, "ben@" + domain: "198.51.100.25"} {
		rows := testTenant.trace(jsonObject{"SenderAddress": mailbox})
		if len(rows) == 0 {
			t.Errorf("the trace of %s has no rows", mailbox)
		}
		for _, row := range rows {
			if r := row.(jsonObject); r["Status"] != "Failed" || r["ToIP"] != toIP {
				t.Errorf("the row of %s is %v, want Failed and ToIP %v", mailbox, r, toIP)
			}
		}
	}
	// A message that was sent before the rule existed is delivered.
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"at": time.Now().UTC().Add(-time.Hour)})
	statuses := map[any]bool{}
	for _, row := range testTenant.trace(jsonObject{"SenderAddress": "anna@" + domain}) {
		statuses[row.(jsonObject)["Status"]] = true
	}
	if !statuses["Delivered"] || !statuses["Failed"] {
		t.Errorf("the statuses are %v, want Delivered and Failed", statuses)
	}
}

func TestTraceQueriesAreLimited(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	token := bearer(testTenant.token(exchangeScope))
	queryTrace := func() response { return testTenant.runCmdletWith(token, "", "Get-MessageTraceV2", jsonObject{}) }
	for n := range 100 {
		if answer := queryTrace(); answer.status != http.StatusOK {
			t.Fatalf("query %d: %d %s, want 200", n, answer.status, answer.raw)
		}
	}
	assertGolden(t, "exchange-trace-quota", queryTrace())
	testTenant.setBehaviour(jsonObject{"trace_throttled": 429})
	if answer := queryTrace(); answer.status != http.StatusTooManyRequests || !strings.Contains(string(answer.raw), "recent queries") {
		t.Errorf("the answer is %d %s, want 429 with the text of the quota", answer.status, answer.raw)
	}
	other := testTenant.newConnectedTenant()
	if answer := other.runCmdlet("Get-MessageTraceV2", jsonObject{}); answer.status != http.StatusOK {
		t.Errorf("another tenant: %d %s, want 200", answer.status, answer.raw)
	}
}

func TestControlRefusesInvalidMessages(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	for body, status := range map[string]int{
		`{"mailbox":"nobody@x.example","count":1}`:                         http.StatusNotFound,
		`{"mailbox":"anna@` + domain + `","count":0}`:                      http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":10001}`:                  http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"recipients":501}`:     http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"at":"yesterday"}`:     http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"to":"b@example.com"}`: http.StatusBadRequest,
	} {
		if answer := testTenant.do("POST", testTenant.ready.URL+"/_control/messages", nil, body); answer.status != status {
			t.Errorf("%s: %d %s, want %d", body, answer.status, answer.raw, status)
		}
	}
	if got := testTenant.trace(jsonObject{}); len(got) != 0 {
		t.Errorf("the refused calls sent %v", got)
	}
}
