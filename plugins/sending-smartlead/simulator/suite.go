// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// members are members of an account, or of the body of a control call.
type members = map[string]any

// suite describes the simulator to the conformance suite.
var suite = simulate.Suite{
	Prepare: []simulate.SuiteCall{{Method: http.MethodPut, Path: "/plan", Body: members{"plan": "enterprise"}}},
	Address: "from_email", Name: members{"from_name": "$name"},
	States: []simulate.SuiteState{
		suiteState(simulate.SuiteState{State: "connected"}, true, true, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "connected", Paused: true}, true, true, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "pending"}, nil, nil, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "failed", HasError: true, Reason: "connection_error"}, false, false, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "failed", HasError: true, Reason: "smtp_failure"}, false, true, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "failed", HasError: true, Reason: "imap_failure"}, true, false, "OUTLOOK"),
		suiteState(simulate.SuiteState{State: "other"}, true, true, "SMTP"),
	},
}

// suiteState returns s with the members of an account in this state. smtp and imap are the results
// of the account's connection tests.
func suiteState(s simulate.SuiteState, smtp, imap any, accountType string) simulate.SuiteState {
	s.Members = members{"is_smtp_success": smtp, "is_imap_success": imap, "is_suspended": s.Paused, "type": accountType}
	if smtp == false {
		s.Members["smtp_failure_error"] = "SMTP Failure - 535 5.7.3 Authentication unsuccessful"
	}
	return s
}
