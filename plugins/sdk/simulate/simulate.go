// SPDX-License-Identifier: Apache-2.0

// Package simulate is the common part of the simulators of providers. A simulator runs on a
// loopback address and imitates a provider's API for tests and for `tenantry dev`.
//
// The simulator of a sending platform is a Platform: a table of its routes, its key check, its
// error format and its control calls. Any other simulator opens a Kit, serves Kit.Handler and keeps
// its own state in a File or in Zones. The Kit adds a clock, planned faults, a journal of calls and
// the HTTP control interface below /_control/ to the provider's API. Platform.Open also opens a
// Kit.
//
//   - simulate.go: Options and Ready, the parameters and the first output of a simulator.
//   - platform.go: Platform and its parts. Start here for a sending platform.
//   - suite.go: Suite and MailSuite, which tell the conformance suite how to use a simulator.
//   - request.go: the State of a Platform, and the Request with which its functions read and change
//     it. limiter.go: rate limits.
//   - kit.go: Kit, Provider and the simulated clock. Start here for any other provider.
//   - zones.go: Zones, the zones of a simulated DNS provider. sandboxzones.go: the client that
//     reads and edits the zones of a sandbox.
//   - handler.go, fault.go: how a call is served with planned faults.
//   - control.go: the control interface, and helpers for a simulator's own control calls.
//   - waits.go: marks calls that ignore a Retry-After.
//   - file.go, journal.go: the state on disk.
//   - signin.go: the pages on which people sign in mailboxes.
package simulate

import (
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Options contains the parameters of a simulator.
type Options struct {
	// URL is the base URL of the simulator, without a final slash. The links in its answers begin
	// with it.
	URL string
	// DataDir is the folder with the simulator's state. A simulator continues from the state that
	// it finds there.
	DataDir string
	// World is the base URL of the sandbox's HTTP interface for simulators (docs/plugins.md).
	// Simulators use it to read and edit zones, and to find the address of a DNS server. The
	// conformance suite can serve this interface instead of a sandbox. Without both, World is
	// empty.
	World string
	// Log receives messages for the person who runs the simulator. It may be nil.
	Log io.Writer
}

// URLVariable is the name of the environment variable that replaces Options.URL of a simulator that
// runs as a process. `tenantry plugin test` sets it to the URL of its proxy. If it is not set,
// Options.URL has the address on which the simulator listens.
const URLVariable = "SIMULATOR_URL"

// Ready is the JSON line that a simulator prints to standard output when it accepts connections.
type Ready struct {
	Provider string `json:"provider"` // the provider's id
	URL      string `json:"url"`      // Options.URL
	// Address is the host and port on which the simulator listens. It is empty if the simulator
	// runs inside a test.
	Address string `json:"address,omitempty"`
	// Settings and Secrets are the plugin's connection to the simulator. Their keys are the names
	// of the plugin's Fields.
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
	// Control selects the control calls that the sandbox passes to this simulator. Each string is
	// the first element of a path below /_control/, such as "tenants".
	Control []string `json:"control"`
	// Sending is the credential of a customer of a sending platform. The sandbox prints it. Sending
	// is nil for other kinds of providers.
	Sending *Sending `json:"sending,omitempty"`
	// Zones has the records of the provider's own zones, keyed by the apex. The sandbox's DNS
	// server answers for these zones. A mail platform's MX, SPF and DKIM records refer to names in
	// these zones. A wildcard TXT record with a DKIM key answers only for names with a label
	// _domainkey.
	Zones map[string][]Record `json:"zones,omitempty"`
}

// Sending is the credential of a customer of a sending platform.
type Sending struct {
	// APIKey is the value of `api_key` in a request that creates an integration.
	APIKey string `json:"api_key"`
	// Workspaces lists the workspaces that the key can access. It is empty if the key can access
	// only one workspace.
	Workspaces []Workspace `json:"workspaces,omitempty"`
}

// Workspace is a workspace of a sending platform.
type Workspace struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// FormatTime returns a time in the format of JavaScript's toISOString, which most platforms use.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// NextStamp returns the time of a change in the format of FormatTime. before is the result for the
// previous change. The time is now, but at least one millisecond after before. The result therefore
// differs from before.
func NextStamp(before string, now time.Time) string {
	if last, err := time.Parse(time.RFC3339, before); err == nil && now.Before(last.Add(time.Millisecond)) {
		now = last.Add(time.Millisecond)
	}
	return FormatTime(now)
}

// DisplayName returns the display name of the person who signs in with a mail address: "Ann Lee"
// for ann.lee@example.com.
func DisplayName(address string) string {
	local, _, _ := strings.Cut(address, "@")
	words := strings.FieldsFunc(strings.ToLower(local), func(r rune) bool { return strings.ContainsRune("._-+", r) })
	for i, w := range words {
		first, size := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToUpper(first)) + w[size:]
	}
	return strings.Join(words, " ")
}
