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
	recipients, previousTime := map[string]bool{}, "" // recipients has each pair of a message and a recipient
	for _, r := range rows {
		row := r.(jsonObject)
		recipients[row["MessageTraceId"].(string)+row["RecipientAddress"].(string)] = true
		received := row["Received"].(string)
		if previousTime != "" && received > previousTime {
			t.Errorf("the row of %s comes after the older row of %s, want the newest rows first", received, previousTime)
		}
		previousTime = received
	}
	// The seven messages have 1, 2, 3, 1, 2, 3 and 1 recipients.
	if len(messageIDs(rows)) != 8 || len(recipients) != 13+12 || len(rows) <= len(recipients) {
		t.Errorf("%d rows for %d recipients of %d messages, want more than 25 rows for 25 recipients of 8 messages", len(rows), len(recipients), len(messageIDs(rows)))
	}
	testTenant.setBehaviour(jsonObject{"trace_duplicates": false})
	if rows := testTenant.trace(jsonObject{}); len(rows) != len(recipients) {
		t.Errorf("%d rows without duplicates, want %d", len(rows), len(recipients))
	}
}

// TestTracePagesOverlap checks that a page has a warning and no link if there are more rows, and
// that the next page begins with the last row of the page before.
func TestTracePagesOverlap(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.sendMessages("anna@"+domain, 20, jsonObject{"recipients": 2, "at": time.Now().UTC().Add(-time.Minute)})
	firstPage := testTenant.mustRun("Get-MessageTraceV2", jsonObject{"ResultSize": 10})
	warning, _ := firstPage.valueAt("@adminapi.warnings", 0).(string)
	if len(firstPage.rows()) != 10 || firstPage.valueAt("@odata.nextLink") != nil || !strings.Contains(warning, "There are more results") {
		t.Fatalf("the first page is %s, want 10 rows and only a warning about more rows", firstPage.raw)
	}
	lastRow := firstPage.rows()[9].(jsonObject)
	secondPage := testTenant.trace(jsonObject{"ResultSize": 10, "EndDate": lastRow["Received"], "StartingRecipientAddress": lastRow["RecipientAddress"]})
	if repeatedRow := secondPage[0].(jsonObject); repeatedRow["RecipientAddress"] != lastRow["RecipientAddress"] {
		t.Errorf("the second page begins with the row %v, want the recipient of the row %v", repeatedRow, lastRow)
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

// TestTraceRowsAppearAfterLag checks that the rows of a new message are missing at first, then
// pending, and then delivered.
func TestTraceRowsAppearAfterLag(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"trace_ms": 300_000})
	testTenant.sendMessages("anna@"+domain, 1, jsonObject{"recipients": 1})
	if got := testTenant.trace(jsonObject{}); len(got) != 0 {
		t.Errorf("the rows right after sending are %v, want none", got)
	}
	for _, want := range []string{"Pending", "Delivered"} {
		testTenant.control("POST", "/clock", jsonObject{"advance": "6m"})
		if got := testTenant.trace(jsonObject{}); len(messageIDs(got)) != 1 || got[0].(jsonObject)["Status"] != want {
			t.Errorf("the rows are %v, want one message that is %s", got, want)
		}
	}
}

// TestTraceShowsBlockedMailAsFailed checks that mail which a rule blocks has no ToIP, and that mail
// which the recipient's server refuses has the address of this server as ToIP.
func TestTraceShowsBlockedMailAsFailed(t *testing.T) {
	testTenant := newTenantWithRule(t)
	testTenant.sendMessages("anna@"+domain, 1)
	testTenant.sendMessages("ben@"+domain, 1, jsonObject{"bounced": true})
	for mailbox, wantToIP := range map[string]any{"anna@" + domain: nil, "ben@" + domain: "198.51.100.25"} {
		rows := testTenant.trace(jsonObject{"SenderAddress": mailbox})
		if len(rows) == 0 {
			t.Errorf("the trace of %s has no rows, want at least one", mailbox)
		}
		for _, row := range rows {
			if r := row.(jsonObject); r["Status"] != "Failed" || r["ToIP"] != wantToIP {
				t.Errorf("the row of %s is %v, want Failed and ToIP %v", mailbox, r, wantToIP)
			}
		}
	}
	// This message is older than the rule.
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
	for i := range 100 { // the default quota
		if answer := queryTrace(); answer.status != http.StatusOK {
			t.Fatalf("query %d: %d %s, want 200", i+1, answer.status, answer.raw)
		}
	}
	assertGolden(t, "exchange-trace-quota", queryTrace())
	testTenant.setBehaviour(jsonObject{"trace_throttled": 429})
	if answer := queryTrace(); answer.status != http.StatusTooManyRequests || !strings.Contains(string(answer.raw), "recent queries") {
		t.Errorf("the answer is %d %s, want 429 with the text of the quota", answer.status, answer.raw)
	}
	otherTenant := testTenant.newConnectedTenant()
	if answer := otherTenant.runCmdlet("Get-MessageTraceV2", jsonObject{}); answer.status != http.StatusOK {
		t.Errorf("a query of a different tenant: %d %s, want 200", answer.status, answer.raw)
	}
}

func TestControlRefusesInvalidMessages(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	for body, want := range map[string]int{
		`{"mailbox":"nobody@x.example","count":1}`:                         http.StatusNotFound,
		`{"mailbox":"anna@` + domain + `","count":0}`:                      http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":10001}`:                  http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"recipients":501}`:     http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"at":"yesterday"}`:     http.StatusBadRequest,
		`{"mailbox":"anna@` + domain + `","count":1,"to":"b@example.com"}`: http.StatusBadRequest,
	} {
		if answer := testTenant.do("POST", testTenant.ready.URL+"/_control/messages", nil, body); answer.status != want {
			t.Errorf("%s: %d %s, want %d", body, answer.status, answer.raw, want)
		}
	}
	if got := testTenant.trace(jsonObject{}); len(got) != 0 {
		t.Errorf("after the refused calls the trace has %v, want no rows", got)
	}
}
