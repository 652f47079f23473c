// SPDX-License-Identifier: Apache-2.0

// Package simulate is what simulators share: the clock, planned faults, the
// journal of calls, state on disk, their part of the sandbox's control
// interface, and the pages on which people sign mailboxes in.
package simulate

import "io"

// Options is what a simulator is started with.
type Options struct {
	// URL is where the simulator is reached, without a final slash; pages
	// and answers that name themselves use it.
	URL string
	// DataDir is where it keeps its state; it goes on from what is there.
	DataDir string
	// World is the base URL of the sandbox's world interface, which tells
	// the address of the sandbox's DNS server, or "" without a sandbox.
	World string
	// Log takes what the simulator has to say to people.
	Log io.Writer
}

// Ready is what a simulator says once it listens, as one JSON line on standard
// output.
type Ready struct {
	Provider string `json:"provider"` // the provider's id
	URL      string `json:"url"`
	// Settings and Secrets point the plugin's production code at the
	// simulator, by the names of its Fields.
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
	// Control lists the first path elements of the sandbox's control
	// interface that this simulator answers below /_control/.
	Control []string `json:"control"`
	// Sending is what a customer of a sending platform has, for the line
	// that the sandbox prints; nil for other kinds of providers.
	Sending *Sending `json:"sending,omitempty"`
}

// Sending is what a customer of a sending platform has.
type Sending struct {
	// APIKey is the text to give as `api_key` when an integration is made.
	APIKey string `json:"api_key"`
	// Workspaces are those that the key reaches, where there is a choice.
	Workspaces []Workspace `json:"workspaces,omitempty"`
}

// Workspace is one workspace at a sending platform.
type Workspace struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}
