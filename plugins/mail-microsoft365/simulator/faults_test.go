// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestScriptedExceptions: each .NET type of the reference's list can be met.
func TestScriptedExceptions(t *testing.T) {
	tn := ready(t)
	for _, tt := range [][2]string{
		{"Microsoft.Exchange.Data.Directory.MemberAlreadyExistsException", "The recipient is already a member of the group."},
		{"Microsoft.Exchange.Data.Directory.MemberNotFoundException", "The recipient isn't a member of the group."},
		{"Microsoft.Exchange.Management.Tasks.RulesValidationException", "The maximum number of rules was reached."},
		{"Microsoft.Exchange.Data.ThrottlingException", "Your recent queries have surpassed the permitted limit, please try again later"},
		{"Microsoft.Exchange.Net.SPRetriableException", "A server side error has occurred. Please try again after some time."},
	} {
		tn.behave(scripts(m{"Set-Mailbox": m{"exception": m{"type": tt[0], "text": tt[1]}}}))
		a := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"})
		inner := a.at("error", "innererror", "internalexception").(m)
		if a.status != http.StatusBadRequest || inner["type"] != tt[0] || inner["message"] != tt[1] ||
			a.at("error", "details", 0, "message") != "|"+tt[0]+"|"+tt[1] {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if a := tn.exchange("Get-Mailbox", m{"Identity": "anna@" + domain}); a.at("value", 0, "DisplayName") != "Anna Keller" {
		t.Error("the work was done all the same")
	}
}

// TestTransientNameInside400: what is refused for good elsewhere may be trouble
// that passes, and only the name of the exception tells.
func TestTransientNameInside400(t *testing.T) {
	tn := ready(t)
	tn.behave(scripts(m{"Set-Mailbox": m{"times": 2, "exception": m{
		"type": "Microsoft.Exchange.Data.Directory.ServerBusyException",
		"text": "The server is too busy to process the request. Please try again after some time."}}}))
	for range 2 {
		golden(t, "exchange-busy", tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"}))
	}
	if a := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"}); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.raw)
	}
}

// TestErrorsInsideSuccess: a cmdlet may report errors with status 200.
func TestErrorsInsideSuccess(t *testing.T) {
	tn := ready(t)
	tn.behave(scripts(m{"Set-Mailbox": m{"errors": []string{"could not be changed"}}, "Get-Mailbox": m{"warnings": []string{"Micro delay applied"}}}))
	a := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"})
	if a.status != http.StatusOK || a.at("@adminapi.errors", 0) != "could not be changed" {
		t.Errorf("%d %s", a.status, a.raw)
	}
	a = tn.exchange("Get-Mailbox", m{"Identity": "anna@" + domain})
	if a.at("@adminapi.warnings", 0) != "Micro delay applied" || a.at("value", 0, "DisplayName") != "Anna Keller" {
		t.Errorf("%s", a.raw)
	}
}

func TestExchangePlannedFailures(t *testing.T) {
	for _, tt := range []struct {
		name       string
		status     int
		retryAfter int
		golden     string // "" for a body that is no envelope
		html       bool
	}{
		{"refused", 400, 0, "exchange-refused", false},
		{"conflict", 409, 0, "exchange-conflict", false},
		{"another fault of the request", 422, 0, "exchange-unprocessable", false},
		{"token refused", 401, 0, "", false},
		{"not allowed", 403, 0, "", false},
		{"unknown tenant", 404, 0, "exchange-unknown-tenant", false},
		{"throttled, bare", 429, 0, "", false},
		{"throttled, with Retry-After", 429, 9, "", false},
		{"back-end trouble", 500, 0, "exchange-transient", false},
		{"front door", 503, 0, "", true},
		{"front door gave up", 504, 0, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := ready(t)
			tn.fault(m{"kind": "status", "status": tt.status, "retry_after": tt.retryAfter, "times": 1, "operation": "Set-Mailbox"})
			a := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"})
			switch {
			case tt.golden != "":
				golden(t, tt.golden, a)
			case a.status != tt.status || a.body != nil:
				t.Errorf("%d %s", a.status, a.raw)
			}
			if got := a.header.Get("Retry-After"); (got == "9") != (tt.retryAfter == 9) {
				t.Errorf("Retry-After %q", got)
			}
			if strings.Contains(a.header.Get("Content-Type"), "html") != tt.html {
				t.Errorf("%v", a.header)
			}
			// A 504 comes after the work, every other status instead of it.
			name := tn.exchange("Get-Mailbox", m{"Identity": "anna@" + domain}).at("value", 0, "DisplayName")
			if want := map[bool]string{true: "New", false: "Anna Keller"}[tt.status == 504]; name != want {
				t.Errorf("afterwards the name is %v, want %s", name, want)
			}
		})
	}
}

// TestPartialFailure: the second of three New-Mailbox calls fails.
func TestPartialFailure(t *testing.T) {
	tn := ready(t)
	tn.fault(m{"kind": "status", "status": 500, "times": 1, "skip": 1, "operation": "New-Mailbox"})
	var got []int
	for _, n := range []string{"b", "c", "d"} {
		got = append(got, tn.exchange("New-Mailbox", box(n+"@"+domain, n+".d")).status)
	}
	if !slices.Equal(got, []int{200, 500, 200}) {
		t.Errorf("%v", got)
	}
}
