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

// customer is the owner of an API key. Username and Password are the login if the customer is a
// partner.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"`
	Username   string               `json:"partner_username"`
	Password   string               `json:"partner_password"`
}

type workspace struct {
	Accounts []*account `json:"accounts"` // in the order of creation
}

// behaviour is how the simulator answers where PlusVibe documents nothing.
type behaviour struct {
	// ListLagMS is how long, in milliseconds, an account is invisible after its first sign-in.
	ListLagMS int `json:"list_lag_ms"`
	// BadKey is the status of the answer to an unknown key: 401, 403 or 200.
	BadKey int `json:"bad_key"`
	// DeletePath is the path of the deletion; empty for none.
	DeletePath string `json:"delete_path"`
	// LinkAt is the member path of the link in the answer to a start, such as data.url. LinkTo
	// replaces the link; empty for the simulator's own page.
	LinkAt string `json:"link_at"`
	LinkTo string `json:"link_to"`
	// DeafToSkip answers with the first page for every value of skip.
	DeafToSkip bool `json:"deaf_to_skip"`
}

var firstWorkspaces = []simulate.Workspace{
	{ID: "65f3a1b2c3d4e5f600000001", Name: "Example Outreach"}, {ID: "65f3a1b2c3d4e5f600000002", Name: "Example Recruiting"},
}

func initialState(time.Time) state {
	return state{
		Keys:       map[string]customer{Key: {firstWorkspaces, Username, Password}},
		Workspaces: map[string]*workspace{}, Links: map[string]*simulate.SignIn{},
		Behaviour: behaviour{BadKey: 401, DeletePath: "/account/delete", LinkAt: "data.url"},
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
	return slices.IndexFunc(w.Accounts, func(a *account) bool { return strings.EqualFold(a.Email, email) })
}

// account returns the account of an address in a workspace and creates it if it does not exist.
func (s *state) account(workspaceID, email string, now time.Time) (a *account, created bool) {
	w := s.workspace(workspaceID)
	if i := w.index(email); i >= 0 {
		return w.Accounts[i], false
	}
	a = &account{accountDoc: accountDoc{
		ID: s.nextID(), Email: email, Status: "ACTIVE", Warmup: "INACTIVE", Provider: "MICROSOFT365", Created: simulate.FormatTime(now), Updated: simulate.FormatTime(now),
	}}
	a.Payload.DailyLimit, a.Payload.Tags = 30, []string{}
	w.Accounts = append(w.Accounts, a)
	return a, true
}

// attach creates the account or reconnects it, as a sign-in does.
func (s *state) attach(workspaceID, email string, now time.Time) {
	a, created := s.account(workspaceID, email, now)
	if !created {
		a.Updated = simulate.NextStamp(a.Updated, now)
	}
	a.Status, a.Provider = "ACTIVE", "MICROSOFT365"
	a.Payload.Name.First, a.Payload.Name.Last, _ = strings.Cut(simulate.DisplayName(email), " ")
	if created {
		a.VisibleAt = now.Add(time.Duration(s.Behaviour.ListLagMS) * time.Millisecond)
	}
}

// nextID returns a unique id in the form of MongoDB's ObjectIDs.
func (s *state) nextID() string {
	s.Serial++
	return fmt.Sprintf("66a0b1c2d3e4f5%010x", s.Serial)
}

func (s *plusvibe) behaviour() (b behaviour) {
	s.file.View(func(all *state) { b = all.Behaviour })
	return b
}
