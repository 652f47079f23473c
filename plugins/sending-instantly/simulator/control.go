// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls are what somebody does at Instantly by hand; the sandbox has them
// below /sending/instantly:
//
//	GET    /accounts                  the accounts of all workspaces
//	POST   /accounts                  [account]: many, as PUT
//	PUT    /accounts/{address}        {"status": -1, "setup_pending", "autofix_failed", "reconnecting", "provider_code",
//	                                  "name", "workspace"}; what is left out stays
//	DELETE /accounts/{address}        out of all workspaces
//	PUT    /keys/{key}                {"workspace", "scopes", "revoked"}
//	PUT    /workspaces/{id}           {"name", "inactive"}: inactive has no paid plan (402)
//	GET    /sessions                  the OAuth sessions
//	POST   /sessions/{id}/complete    {"email", "name"}: that person signs in
//	POST   /sessions/{id}/deny        the person says no
//	POST   /sessions/{id}/expire      ten minutes are over
//	POST   /sessions/{id}/forget      Instantly does not know it any more
//	POST   /behaviour                 {"list_lag_ms", "no_cursor", "repeat_page", "auth_host"}
func (s *instantly) controls() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /accounts":                s.shownAccounts,
		"POST /accounts":               s.putAccounts,
		"PUT /accounts/{email}":        s.putAccount,
		"DELETE /accounts/{email}":     s.dropAccount,
		"PUT /keys/{key}":              s.putKey,
		"PUT /workspaces/{id}":         s.putWorkspace,
		"GET /sessions":                s.shownSessions,
		"POST /sessions/{id}/complete": s.completeSession,
		"POST /sessions/{id}/deny":     s.denySession,
		"POST /sessions/{id}/expire":   s.expireSession,
		"POST /sessions/{id}/forget":   s.forgetSession,
		"POST /behaviour":              s.behave,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /_control"+path, do)
	}
	return simulate.Calls(mux, nil)
}

// read decodes the body of a control call, or answers that it is none.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := simulate.Read(r, into)
	if err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}

// change changes the state; fn says whether what it changes is there.
func (s *instantly) change(w http.ResponseWriter, fn func(*state) bool) {
	simulate.Alter(w, s.file, "Instantly has no such thing, or it is not open any more", fn)
}

func (s *instantly) shownAccounts(w http.ResponseWriter, _ *http.Request) {
	out := []account{}
	s.file.View(func(all *state) {
		for _, in := range all.Workspaces {
			for _, a := range in.Accounts {
				out = append(out, a.account)
			}
		}
	})
	slices.SortFunc(out, func(a, b account) int { return strings.Compare(a.Email, b.Email) })
	simulate.Reply(w, http.StatusOK, out)
}

// accountCall is what a control call says of an account. What it leaves out
// stays as it is.
type accountCall struct {
	Email         string `json:"email"`
	Name          string `json:"name"`
	Workspace     string `json:"workspace"`
	Status        *int   `json:"status"`
	SetupPending  *bool  `json:"setup_pending"`
	ProviderCode  *int   `json:"provider_code"`
	AutofixFailed *bool  `json:"autofix_failed"`
	// Reconnecting puts autofix_failed to null.
	Reconnecting bool `json:"reconnecting"`
}

func (c accountCall) write(s *instantly, all *state) {
	id := c.Workspace
	if id == "" {
		id = Workspace
	}
	now := s.kit.Now()
	in := all.workspace(id, now)
	a := in.Accounts[strings.ToLower(c.Email)]
	if a == nil {
		a = newAccount(in, c.Email, now)
		c.Name = cmp.Or(c.Name, nameOf(c.Email))
	}
	if c.Name != "" {
		a.FirstName, a.LastName, _ = strings.Cut(c.Name, " ")
	}
	a.Updated = simulate.Stamp(now)
	set(&a.Status, c.Status)
	set(&a.SetupPending, c.SetupPending)
	set(&a.ProviderCode, c.ProviderCode)
	if c.AutofixFailed != nil || c.Reconnecting {
		a.AutofixFailed = c.AutofixFailed
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *instantly) putAccount(w http.ResponseWriter, r *http.Request) {
	var c accountCall
	if !read(w, r, &c) {
		return
	}
	c.Email = r.PathValue("email")
	s.change(w, func(all *state) bool { c.write(s, all); return true })
}

func (s *instantly) putAccounts(w http.ResponseWriter, r *http.Request) {
	var list []accountCall
	if !read(w, r, &list) {
		return
	}
	s.change(w, func(all *state) bool {
		for _, c := range list {
			c.write(s, all)
		}
		return true
	})
}

func (s *instantly) dropAccount(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(all *state) (there bool) {
		for _, in := range all.Workspaces {
			there = there || in.Accounts[strings.ToLower(r.PathValue("email"))] != nil
			delete(in.Accounts, strings.ToLower(r.PathValue("email")))
		}
		return there
	})
}
