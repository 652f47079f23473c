// SPDX-License-Identifier: Apache-2.0

package simulate

// Suite tells the conformance suite how to bring a simulated sending platform into the states of the
// contract. The simulator answers GET /_control/suite with it. In its texts, these words are replaced:
//
//   - $url: the URL of the simulator
//   - $name, $first and $last: the display name of an account, and its two words
//   - $third: 0, 1 or 2, a different one for each account
//   - $session: the id of a sign-in session
//   - $workspaces, as a whole value: a list of workspaces, see SuiteWorkspaces
type Suite struct {
	// Prepare are control calls that are made before each check.
	Prepare []SuiteCall `json:"prepare,omitempty"`
	// Settings and Secrets replace values of Ready. They reach one workspace without accounts.
	Settings map[string]string `json:"settings,omitempty"`
	Secrets  map[string]string `json:"secrets,omitempty"`
	// Address is the member of an account with its address. Name has the members with its name.
	Address string         `json:"address"`
	Name    map[string]any `json:"name"`
	// States are all states that an account can have, each with the members of such an account.
	States []SuiteState `json:"states"`
	// Sessions says that the platform has sign-in sessions, and Declines that it reports a declined
	// one. Expire ends a session.
	Sessions bool       `json:"sessions,omitempty"`
	Declines bool       `json:"declines,omitempty"`
	Expire   *SuiteCall `json:"expire,omitempty"`
	// Unpaid ends the plan of the account. It is nil if the platform does not report this.
	Unpaid *SuiteCall `json:"unpaid,omitempty"`
	// Workspaces is nil if a credential always reaches one workspace.
	Workspaces *SuiteWorkspaces `json:"workspaces,omitempty"`
	// Lesser are values that make a credential that cannot sign mailboxes in, or nil.
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

// SuiteState is a state of an account. The first four fields are those of the protocol.
type SuiteState struct {
	State    string         `json:"state"`
	Paused   bool           `json:"paused,omitempty"`
	HasError bool           `json:"has_error,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Members  map[string]any `json:"members"`
}

// SuiteWorkspaces makes a credential that reaches a number of workspaces: Calls are made, with
// $workspaces as the list, and Values are the settings and secrets with which to call then.
type SuiteWorkspaces struct {
	// ID is the format of a workspace's id, such as "ws-%d", for a number from 1. NumericID says that
	// the id is a number in JSON.
	ID        string            `json:"id"`
	NumericID bool              `json:"numeric_id,omitempty"`
	Calls     []SuiteCall       `json:"calls"`
	Values    map[string]string `json:"values"`
}

// MailSuite tells the conformance suite how to use the simulator of a mail platform. The simulator
// answers GET /_control/suite with it. $domain in its texts is the domain of the administrator's
// username.
type MailSuite struct {
	// Settings replace values of Ready, for example to switch off pauses between calls.
	Settings map[string]string `json:"settings,omitempty"`
	// Member is the username of a person without a role, and Guest that of an administrator of a
	// different tenant.
	Member string `json:"member"`
	Guest  string `json:"guest"`
}
