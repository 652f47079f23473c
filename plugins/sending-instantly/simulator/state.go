// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// state is what the simulator stores in its data folder.
type state struct {
	Serial     int                   `json:"serial"`
	Keys       map[string]key        `json:"keys"`
	Workspaces map[string]*workspace `json:"workspaces"` // by id
	Sessions   map[string]*session   `json:"sessions"`   // by id
	// ListLagMS is how long, in milliseconds, an account is invisible after its first sign-in.
	ListLagMS int `json:"list_lag_ms"`
	// NoCursor leaves out the cursor of the last page that has accounts.
	NoCursor bool `json:"no_cursor"`
	// RepeatPage answers every request for a page with the first page.
	RepeatPage bool `json:"repeat_page"`
	// AuthHost replaces the host of the sign-in links; empty for the simulator itself.
	AuthHost string `json:"auth_host"`
}

type key struct {
	Workspace string   `json:"workspace"`
	Scopes    []string `json:"scopes"`
	Revoked   bool     `json:"revoked"`
}

type workspace struct {
	ID       string                    `json:"id"`
	Name     string                    `json:"name"`
	Inactive bool                      `json:"inactive"` // without a paid plan
	Created  time.Time                 `json:"created"`
	Accounts map[string]*storedAccount `json:"accounts"` // by address in lower case
}

// Workspace is the id of the workspace of Key.
const Workspace = "019ffad2-5cac-7fb9-a336-000000000001"

func fresh(now time.Time) state {
	s := state{Keys: map[string]key{Key: {Workspace: Workspace, Scopes: []string{"all:all"}}},
		Workspaces: map[string]*workspace{}, Sessions: map[string]*session{}}
	s.workspace(Workspace, now).Name = "Example Outreach"
	return s
}

// workspace returns the workspace of an id and creates it if it does not exist.
func (s *state) workspace(id string, now time.Time) *workspace {
	if s.Workspaces[id] == nil {
		s.Workspaces[id] = &workspace{ID: id, Name: "Workspace", Created: now, Accounts: map[string]*storedAccount{}}
	}
	return s.Workspaces[id]
}

// attach creates the account or reconnects it, as a sign-in does.
func (s *state) attach(in, email, name string, now time.Time) {
	w := s.workspace(in, now)
	a := w.Accounts[strings.ToLower(email)]
	if a == nil {
		a = newAccount(w, email, now)
		a.VisibleAt = now.Add(time.Duration(s.ListLagMS) * time.Millisecond)
	}
	a.FirstName, a.LastName, _ = strings.Cut(name, " ")
	no := false
	a.Status, a.AutofixFailed, a.SetupPending = 1, &no, false
	a.Updated = simulate.NextStamp(a.Updated, now)
}

// newAccount stores a new account with the values that Instantly sets.
func newAccount(w *workspace, email string, now time.Time) *storedAccount {
	no, limit := false, 30
	a := &storedAccount{account: account{
		Email: email, Created: simulate.FormatTime(now), Updated: simulate.FormatTime(now), Organization: w.ID, Status: 1, WarmupStatus: 0,
		ProviderCode: microsoft, DailyLimit: &limit, AutofixFailed: &no,
	}}
	w.Accounts[strings.ToLower(email)] = a
	return a
}

// nextID returns a unique id with a prefix.
func (s *state) nextID(prefix string) string {
	s.Serial++
	return fmt.Sprintf("%s%012x", prefix, s.Serial)
}
