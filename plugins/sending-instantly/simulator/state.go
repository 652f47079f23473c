// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// state is what is kept on disk.
type state struct {
	Serial     int                   `json:"serial"`
	Keys       map[string]key        `json:"keys"`
	Workspaces map[string]*workspace `json:"workspaces"` // by id
	Sessions   map[string]*session   `json:"sessions"`   // by id
	// ListLagMS is how long an account that was signed in stays out of
	// sight, NoCursor that the last page with accounts has no cursor.
	ListLagMS int  `json:"list_lag_ms"`
	NoCursor  bool `json:"no_cursor"`
	// RepeatPage answers each request for a page with the first one, and
	// AuthHost is another host for the links.
	RepeatPage bool   `json:"repeat_page"`
	AuthHost   string `json:"auth_host"`
}

type key struct {
	Workspace string   `json:"workspace"`
	Scopes    []string `json:"scopes"`
	Revoked   bool     `json:"revoked"`
}

type workspace struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	Inactive bool             `json:"inactive"` // without a paid plan
	Created  time.Time        `json:"created"`
	Accounts map[string]*held `json:"accounts"` // by address in lower case
}

// Workspace is the one of Key.
const Workspace = "019ffad2-5cac-7fb9-a336-000000000001"

func fresh(now time.Time) state {
	s := state{Keys: map[string]key{Key: {Workspace: Workspace, Scopes: []string{"all:all"}}},
		Workspaces: map[string]*workspace{}, Sessions: map[string]*session{}}
	s.workspace(Workspace, now).Name = "Example Outreach"
	return s
}

// workspace finds or makes a workspace.
func (s *state) workspace(id string, now time.Time) *workspace {
	if s.Workspaces[id] == nil {
		s.Workspaces[id] = &workspace{ID: id, Name: "Workspace", Created: now, Accounts: map[string]*held{}}
	}
	return s.Workspaces[id]
}

// attach is what a sign-in does: the account is there, with a grant that works.
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
	a.Updated = simulate.Later(a.Updated, now)
}

// newAccount makes an account as Instantly does.
func newAccount(w *workspace, email string, now time.Time) *held {
	no, limit := false, 30
	a := &held{account: account{
		Email: email, Created: simulate.Stamp(now), Updated: simulate.Stamp(now), Organization: w.ID, Status: 1, WarmupStatus: 0,
		ProviderCode: microsoft, DailyLimit: &limit, AutofixFailed: &no,
	}}
	w.Accounts[strings.ToLower(email)] = a
	return a
}

// nextID makes an id of which no two are alike.
func (s *state) nextID(what string) string {
	s.Serial++
	return fmt.Sprintf("%s%012x", what, s.Serial)
}
