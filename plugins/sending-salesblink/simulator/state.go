// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// state is what is kept on disk.
type state struct {
	Serial     int                   `json:"serial"`
	Keys       map[string]customer   `json:"keys"`
	Workspaces map[string]*workspace `json:"workspaces"` // by id
	Links      map[string]*link      `json:"links"`      // by their state parameter
	Behaviour  behaviour             `json:"behaviour"`
}

// customer is who has a key.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"` // the first is its default
	Role       string               `json:"role"`       // owner, or one that sees no workspaces
}

type workspace struct {
	Senders []*sender `json:"senders"` // in the order in which they came
}

// link is a sign-in that was started.
type link struct {
	Workspace string    `json:"workspace"`
	Ends      time.Time `json:"ends"`
	Used      bool      `json:"used"`
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

func fresh() state {
	return state{
		Keys:       map[string]customer{Key: {[]simulate.Workspace{firstWorkspace}, "owner"}},
		Workspaces: map[string]*workspace{}, Links: map[string]*link{},
		Behaviour: behaviour{Skip: "offset", PastEnd: "empty", Shape: "grouped", Search: true, Limits: true},
	}
}

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
	a = &sender{senderDoc: senderDoc{ID: s.nextID(), Email: email, Status: "active", Provider: "outlook", Folder: "Default", Created: stamp(now), Updated: stamp(now)}}
	w.Senders = append(w.Senders, a)
	return a, true
}

// attach is what a sign-in does: the sender is there, with a grant that works.
func (s *state) attach(in, email string, now time.Time) {
	a, fresh := s.sender(in, email, now)
	a.Name, a.Status, a.Error, a.Provider = nameOf(email), "active", nil, "outlook"
	if fresh {
		a.VisibleAt = now.Add(time.Duration(s.Behaviour.ListLagMS) * time.Millisecond)
	} else {
		a.Updated = later(a.Updated, now)
	}
}

// nameOf is what a person is called who signs in with an address.
func nameOf(email string) string {
	local, _, _ := strings.Cut(email, "@")
	words := strings.FieldsFunc(strings.ToLower(local), func(r rune) bool { return strings.ContainsRune("._-+", r) })
	for i, w := range words {
		first, size := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToUpper(first)) + w[size:]
	}
	return strings.Join(words, " ")
}

// nextID makes a UUID of version 4, of which no two are alike.
func (s *state) nextID() string {
	s.Serial++
	return fmt.Sprintf("5b1e0000-0000-4000-8001-%012x", s.Serial)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// later is the stamp of a change, which is never that of the one before.
func later(before string, now time.Time) string {
	for stamp(now) <= before {
		now = now.Add(time.Millisecond)
	}
	return stamp(now)
}

func (s *salesblink) behaviour() (b behaviour) {
	s.file.View(func(all *state) { b = all.Behaviour })
	return b
}
