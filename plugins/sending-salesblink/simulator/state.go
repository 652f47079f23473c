// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// state is what the simulator stores in its data folder.
type state struct {
	Serial     int                         `json:"serial"`
	Keys       map[string]customer         `json:"keys"`
	Workspaces map[string]*workspace       `json:"workspaces"` // by id
	Links      map[string]*simulate.SignIn `json:"links"`      // by their state parameter
	Behaviour  behaviour                   `json:"behaviour"`
}

// customer is the owner of an API key.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"` // the first is the default
	Role       string               `json:"role"`       // only "owner" may list workspaces
}

type workspace struct {
	Senders []*sender `json:"senders"` // in the order of creation
}

// behaviour is how the simulator answers where SalesBlink documents nothing.
type behaviour struct {
	ListLagMS int    `json:"list_lag_ms"` // how long a sender is invisible after its first sign-in
	Skip      string `json:"skip"`        // offset, page or ignored
	PastEnd   string `json:"past_end"`    // the page after the last: empty, or repeat the last page
	Shape     string `json:"shape"`       // grouped, folders or flat
	Search    bool   `json:"search"`      // whether the parameter search has an effect
	LinkTo    string `json:"link_to"`     // replaces the sign-in link; empty for the page of the simulator
	Limits    bool   `json:"limits"`      // whether the rate limits apply
}

var firstWorkspace = simulate.Workspace{ID: "5b1e0000-0000-4000-8000-000000000001", Name: "Example Outreach"}

func initialState(time.Time) state {
	return state{
		Keys:       map[string]customer{Key: {[]simulate.Workspace{firstWorkspace}, "owner"}},
		Workspaces: map[string]*workspace{}, Links: map[string]*simulate.SignIn{},
		Behaviour: behaviour{Skip: "offset", PastEnd: "empty", Shape: "grouped", Search: true, Limits: true},
	}
}

func startedSignIns(s *state) map[string]*simulate.SignIn { return s.Links }

// workspace returns the workspace of an id and creates it if it does not exist.
func (s *state) workspace(id string) *workspace {
	if s.Workspaces[id] == nil {
		s.Workspaces[id] = &workspace{}
	}
	return s.Workspaces[id]
}

func (w *workspace) index(email string) int {
	return slices.IndexFunc(w.Senders, func(a *sender) bool { return strings.EqualFold(a.Email, email) })
}

// sender returns the sender of an address in a workspace and creates it if it does not exist.
func (s *state) sender(workspaceID, email string, now time.Time) (a *sender, created bool) {
	w := s.workspace(workspaceID)
	if i := w.index(email); i >= 0 {
		return w.Senders[i], false
	}
	a = &sender{senderDoc: senderDoc{ID: s.nextID(), Email: email, Status: "active", Provider: "outlook", Folder: "Default", Created: simulate.FormatTime(now), Updated: simulate.FormatTime(now)}}
	w.Senders = append(w.Senders, a)
	return a, true
}

// attach creates the sender or reconnects it, as a sign-in does.
func (s *state) attach(workspaceID, email string, now time.Time) {
	a, created := s.sender(workspaceID, email, now)
	a.Name, a.Status, a.Error, a.Provider = simulate.DisplayName(email), "active", nil, "outlook"
	if created {
		a.VisibleAt = now.Add(time.Duration(s.Behaviour.ListLagMS) * time.Millisecond)
	} else {
		a.Updated = simulate.NextStamp(a.Updated, now)
	}
}

// nextID returns a unique id in the form of a version 4 UUID.
func (s *state) nextID() string {
	s.Serial++
	return fmt.Sprintf("5b1e0000-0000-4000-8001-%012x", s.Serial)
}

func (s *salesblink) behaviour() (b behaviour) {
	s.file.View(func(all *state) { b = all.Behaviour })
	return b
}
