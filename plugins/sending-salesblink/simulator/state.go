// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// state is what is kept on disk.
type state struct {
	Serial     int                         `json:"serial"`
	Keys       map[string]customer         `json:"keys"`
	Workspaces map[string]*workspace       `json:"workspaces"` // by id
	Links      map[string]*simulate.SignIn `json:"links"`      // by their state parameter
	Behaviour  behaviour                   `json:"behaviour"`
}

// customer is who has a key.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"` // the first is its default
	Role       string               `json:"role"`       // owner, or one that sees no workspaces
}

type workspace struct {
	Senders []*sender `json:"senders"` // in the order in which they came
}

// behaviour are the ways in which SalesBlink may turn out to answer.
type behaviour struct {
	ListLagMS int    `json:"list_lag_ms"` // how long a sender that was signed in stays out of sight
	Skip      string `json:"skip"`        // offset, page or ignored
	PastEnd   string `json:"past_end"`    // empty, or repeat the last page
	Shape     string `json:"shape"`       // grouped, folders or flat
	Search    bool   `json:"search"`      // whether it is heeded
	LinkTo    string `json:"link_to"`     // where links lead, "" for the page here
	Limits    bool   `json:"limits"`
}

var firstWorkspace = simulate.Workspace{ID: "5b1e0000-0000-4000-8000-000000000001", Name: "Example Outreach"}

func fresh(time.Time) state {
	return state{
		Keys:       map[string]customer{Key: {[]simulate.Workspace{firstWorkspace}, "owner"}},
		Workspaces: map[string]*workspace{}, Links: map[string]*simulate.SignIn{},
		Behaviour: behaviour{Skip: "offset", PastEnd: "empty", Shape: "grouped", Search: true, Limits: true},
	}
}

func started(s *state) map[string]*simulate.SignIn { return s.Links }

// workspace finds or makes one.
func (s *state) workspace(id string) *workspace {
	if s.Workspaces[id] == nil {
		s.Workspaces[id] = &workspace{}
	}
	return s.Workspaces[id]
}

func (w *workspace) index(email string) int {
	return slices.IndexFunc(w.Senders, func(a *sender) bool { return strings.EqualFold(a.Email, email) })
}

// sender finds a sender of a workspace, or makes one.
func (s *state) sender(in, email string, now time.Time) (a *sender, fresh bool) {
	w := s.workspace(in)
	if i := w.index(email); i >= 0 {
		return w.Senders[i], false
	}
	a = &sender{senderDoc: senderDoc{ID: s.nextID(), Email: email, Status: "active", Provider: "outlook", Folder: "Default", Created: simulate.Stamp(now), Updated: simulate.Stamp(now)}}
	w.Senders = append(w.Senders, a)
	return a, true
}

// attach is what a sign-in does: the sender is there, with a grant that works.
func (s *state) attach(in, email string, now time.Time) {
	a, fresh := s.sender(in, email, now)
	a.Name, a.Status, a.Error, a.Provider = simulate.NameOf(email), "active", nil, "outlook"
	if fresh {
		a.VisibleAt = now.Add(time.Duration(s.Behaviour.ListLagMS) * time.Millisecond)
	} else {
		a.Updated = simulate.Later(a.Updated, now)
	}
}

// nextID makes a UUID of version 4, of which no two are alike.
func (s *state) nextID() string {
	s.Serial++
	return fmt.Sprintf("5b1e0000-0000-4000-8001-%012x", s.Serial)
}

func (s *salesblink) behaviour() (b behaviour) {
	s.file.View(func(all *state) { b = all.Behaviour })
	return b
}
