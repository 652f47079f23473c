// SPDX-License-Identifier: Apache-2.0

package simulate

// Suite tells the conformance suite how to bring a simulated sending platform into the states that
// the contract suite (package ports/contract) needs. The simulator answers GET /_control/suite with
// a Suite. The conformance suite replaces these words in the texts of the Suite:
//
//   - $url, in all members: the URL of the simulator
//   - $name, $first and $last, in Name: the display name of an account, the first word of this
//     name, and the rest after that word
//   - $third, in Name: the number of the account modulo 3
//   - $session, in Expire: the id of a sign-in session, escaped for a path
//   - $workspaces, in Workspaces.Calls, if it is the whole text: a list of workspaces
type Suite struct {
	// Prepare lists the control calls that the suite makes before each check.
	Prepare []SuiteCall `json:"prepare,omitempty"`
	// Settings and Secrets replace values of Ready. With these values, the credential can access
	// one workspace, which has no accounts.
	Settings map[string]string `json:"settings,omitempty"`
	Secrets  map[string]string `json:"secrets,omitempty"`
	// Address is the name of the JSON member that contains an account's address. Name has the
	// members that set the account's display name.
	Address string         `json:"address"`
	Name    map[string]any `json:"name"`
	// States has one element for each combination of the other fields of SuiteState that an account
	// can have.
	States []SuiteState `json:"states"`
	// Sessions is true if the platform has sign-in sessions. Declines is true if the platform
	// reports when a person has declined. Expire makes a session expire.
	Sessions bool       `json:"sessions,omitempty"`
	Declines bool       `json:"declines,omitempty"`
	Expire   *SuiteCall `json:"expire,omitempty"`
	// Unpaid is the control call that ends the plan to which the credential belongs. It is nil if
	// the simulator has no such call.
	Unpaid *SuiteCall `json:"unpaid,omitempty"`
	// Workspaces is nil if a credential can access only one workspace.
	Workspaces *SuiteWorkspaces `json:"workspaces,omitempty"`
	// Lesser has the settings and secrets with which the credential cannot start sign-ins. It may
	// be nil.
	Lesser map[string]string `json:"lesser,omitempty"`
	// LeastWaitSeconds is the shortest wait that the platform demands after a 429.
	LeastWaitSeconds int `json:"least_wait_seconds,omitempty"`
}

// SuiteCall is a control call below /_control.
type SuiteCall struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   any    `json:"body,omitempty"`
}

// SuiteState is a state of an account. Members are the JSON members that bring an account into this
// state. The plugin must report the values of the other four fields for such an account.
type SuiteState struct {
	State    string         `json:"state"`
	Paused   bool           `json:"paused,omitempty"`
	HasError bool           `json:"has_error,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Members  map[string]any `json:"members"`
}

// SuiteWorkspaces describes how to create a credential that can access several workspaces. Calls
// are the control calls that create it, with $workspaces as the list of workspaces. Values are the
// settings and secrets of the credential.
type SuiteWorkspaces struct {
	// ID is the format of a workspace's id, such as "ws-%d", for a number from 1. NumericID is true
	// if the id is a number in JSON.
	ID        string            `json:"id"`
	NumericID bool              `json:"numeric_id,omitempty"`
	Calls     []SuiteCall       `json:"calls"`
	Values    map[string]string `json:"values"`
}

// MailSuite tells the conformance suite how to use the simulator of a mail platform. The simulator
// answers GET /_control/suite with a MailSuite. $domain in Member and Guest is the domain of the
// username of the tenant's administrator.
type MailSuite struct {
	// Settings replace values of Ready, for example to disable pauses between calls.
	Settings map[string]string `json:"settings,omitempty"`
	// Member is the username of a person without a role. Guest is the username of an administrator
	// of a different tenant.
	Member string `json:"member"`
	Guest  string `json:"guest"`
}
