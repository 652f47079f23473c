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

// customer is who has a key, and a partner's login beside it.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"`
	Username   string               `json:"partner_username"`
	Password   string               `json:"partner_password"`
}

type workspace struct {
	Accounts []*account `json:"accounts"` // in the order in which they came
}

// behaviour are the ways in which PlusVibe may turn out to answer.
type behaviour struct {
	// ListLagMS is how long an account that was signed in stays out of sight.
	ListLagMS int `json:"list_lag_ms"`
	// BadKey is the status that an unknown key gets: 401, 403 or 200.
	BadKey int `json:"bad_key"`
	// DeletePath is where accounts are deleted, "" for nowhere.
	DeletePath string `json:"delete_path"`
	// LinkAt is where the answer of a start has its link, LinkTo where that
	// leads unless it is the simulator's own page.
	LinkAt string `json:"link_at"`
	LinkTo string `json:"link_to"`
	// DeafToSkip shows the first page for every skip.
	DeafToSkip bool `json:"deaf_to_skip"`
}

var firstWorkspaces = []simulate.Workspace{
	{ID: "65f3a1b2c3d4e5f600000001", Name: "Example Outreach"}, {ID: "65f3a1b2c3d4e5f600000002", Name: "Example Recruiting"},
}

func fresh(time.Time) state {
	return state{
		Keys:       map[string]customer{Key: {firstWorkspaces, Username, Password}},
		Workspaces: map[string]*workspace{}, Links: map[string]*simulate.SignIn{},
		Behaviour: behaviour{BadKey: 401, DeletePath: "/account/delete", LinkAt: "data.url"},
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
	return slices.IndexFunc(w.Accounts, func(a *account) bool { return strings.EqualFold(a.Email, email) })
}

// account finds an account of a workspace, or makes one.
func (s *state) account(in, email string, now time.Time) (a *account, fresh bool) {
	w := s.workspace(in)
	if i := w.index(email); i >= 0 {
		return w.Accounts[i], false
	}
	a = &account{accountDoc: accountDoc{
		ID: s.nextID(), Email: email, Status: "ACTIVE", Warmup: "INACTIVE", Provider: "MICROSOFT365", Created: simulate.Stamp(now), Updated: simulate.Stamp(now),
	}}
	a.Payload.DailyLimit, a.Payload.Tags = 30, []string{}
	w.Accounts = append(w.Accounts, a)
	return a, true
}

// attach is what a sign-in does: the account is there, with a grant that works.
func (s *state) attach(in, email string, now time.Time) {
	a, fresh := s.account(in, email, now)
	if !fresh {
		a.Updated = simulate.Later(a.Updated, now)
	}
	a.Status, a.Provider = "ACTIVE", "MICROSOFT365"
	a.Payload.Name.First, a.Payload.Name.Last, _ = strings.Cut(simulate.NameOf(email), " ")
	if fresh {
		a.VisibleAt = now.Add(time.Duration(s.Behaviour.ListLagMS) * time.Millisecond)
	}
}

// nextID makes an id as MongoDB does, of which no two are alike.
func (s *state) nextID() string {
	s.Serial++
	return fmt.Sprintf("66a0b1c2d3e4f5%010x", s.Serial)
}

func (s *plusvibe) behaviour() (b behaviour) {
	s.file.View(func(all *state) { b = all.Behaviour })
	return b
}
