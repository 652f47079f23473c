// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the control interface. The sandbox serves it below /sending/instantly:
//
//	GET    /accounts                  the accounts of all workspaces
//	POST   /accounts                  a list; as PUT for each account
//	PUT    /accounts/{address}        {"status": -1, "setup_pending", "autofix_failed", "reconnecting",
//	                                  "provider_code", "name", "workspace"}: creates one, or changes the fields given
//	DELETE /accounts/{address}        removes it from all workspaces
//	PUT    /keys/{key}                {"workspace", "scopes", "revoked"}
//	PUT    /workspaces/{id}           {"name", "inactive"}: inactive means no paid plan (402)
//	GET    /sessions                  the OAuth sessions
//	POST   /sessions/{id}/complete    {"email", "name"}: this mailbox signs in
//	POST   /sessions/{id}/deny        the person denies access
//	POST   /sessions/{id}/expire      ends the session as expired
//	POST   /sessions/{id}/forget      deletes the session
//	POST   /behaviour                 {"list_lag_ms", "no_cursor", "repeat_page", "auth_host"}
func (s *instantly) controls() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /accounts":                s.listAllAccounts,
		"POST /accounts":               s.putAccounts,
		"PUT /accounts/{email}":        s.putAccount,
		"DELETE /accounts/{email}":     s.dropAccount,
		"PUT /keys/{key}":              s.putKey,
		"PUT /workspaces/{id}":         s.putWorkspace,
		"GET /sessions":                s.listAllSessions,
		"POST /sessions/{id}/complete": s.completeSession,
		"POST /sessions/{id}/deny":     s.denySession,
		"POST /sessions/{id}/expire":   s.expireSession,
		"POST /sessions/{id}/forget":   s.forgetSession,
		"POST /behaviour":              s.setBehaviour,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /_control"+path, do)
	}
	return simulate.ControlCalls(mux, nil)
}

// read decodes the body of a control call, or answers 400 and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := simulate.ReadBody(r, into)
	if err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}

// change changes the state and answers. fn returns false when the object to change does not exist;
// then the answer is 404.
func (s *instantly) change(w http.ResponseWriter, fn func(*state) bool) {
	simulate.ChangeOrNotFound(w, s.file, "Instantly has no such thing, or it is not open any more", fn)
}

func (s *instantly) listAllAccounts(w http.ResponseWriter, _ *http.Request) {
	out := []account{}
	s.file.View(func(all *state) {
		for _, in := range all.Workspaces {
			for _, a := range in.Accounts {
				out = append(out, a.account)
			}
		}
	})
	slices.SortFunc(out, func(a, b account) int { return strings.Compare(a.Email, b.Email) })
	simulate.WriteJSON(w, http.StatusOK, out)
}

// accountChange is the body of a control call that creates or changes an account. Absent fields
// stay unchanged.
type accountChange struct {
	Email         string `json:"email"`
	Name          string `json:"name"`
	Workspace     string `json:"workspace"`
	Status        *int   `json:"status"`
	SetupPending  *bool  `json:"setup_pending"`
	ProviderCode  *int   `json:"provider_code"`
	AutofixFailed *bool  `json:"autofix_failed"`
	// Reconnecting sets autofix_failed to null.
	Reconnecting bool `json:"reconnecting"`
}

// apply creates or changes the account in the state.
func (c accountChange) apply(s *instantly, all *state) {
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
	a.Updated = simulate.FormatTime(now)
	set(&a.Status, c.Status)
	set(&a.SetupPending, c.SetupPending)
	set(&a.ProviderCode, c.ProviderCode)
	if c.AutofixFailed != nil || c.Reconnecting {
		a.AutofixFailed = c.AutofixFailed
	}
}

// set copies from into to, unless from is nil.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *instantly) putAccount(w http.ResponseWriter, r *http.Request) {
	var c accountChange
	if !read(w, r, &c) {
		return
	}
	c.Email = r.PathValue("email")
	s.change(w, func(all *state) bool { c.apply(s, all); return true })
}

func (s *instantly) putAccounts(w http.ResponseWriter, r *http.Request) {
	var list []accountChange
	if !read(w, r, &list) {
		return
	}
	s.change(w, func(all *state) bool {
		for _, c := range list {
			c.apply(s, all)
		}
		return true
	})
}

func (s *instantly) dropAccount(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(all *state) (found bool) {
		for _, in := range all.Workspaces {
			found = found || in.Accounts[strings.ToLower(r.PathValue("email"))] != nil
			delete(in.Accounts, strings.ToLower(r.PathValue("email")))
		}
		return found
	})
}

func (s *instantly) putKey(w http.ResponseWriter, r *http.Request) {
	k := key{Workspace: Workspace, Scopes: []string{"all:all"}}
	if !read(w, r, &k) {
		return
	}
	s.change(w, func(all *state) bool {
		all.workspace(k.Workspace, s.kit.Now())
		all.Keys[r.PathValue("key")] = k
		return true
	})
}

func (s *instantly) putWorkspace(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name     string `json:"name"`
		Inactive bool   `json:"inactive"`
	}
	if !read(w, r, &in) {
		return
	}
	s.change(w, func(all *state) bool {
		to := all.workspace(r.PathValue("id"), s.kit.Now())
		to.Name, to.Inactive = cmp.Or(in.Name, to.Name), in.Inactive
		return true
	})
}

func (s *instantly) listAllSessions(w http.ResponseWriter, _ *http.Request) {
	out := []session{}
	s.file.View(func(all *state) {
		for _, x := range all.Sessions {
			shown := *x
			shown.Status = x.statusAt(s.kit.Now())
			out = append(out, shown)
		}
	})
	slices.SortFunc(out, func(a, b session) int { return cmp.Compare(a.ID, b.ID) })
	simulate.WriteJSON(w, http.StatusOK, out)
}

// byID matches the session that the path names.
func byID(r *http.Request) func(*session) bool {
	id := r.PathValue("id")
	return func(x *session) bool { return x.ID == id }
}

func (s *instantly) completeSession(w http.ResponseWriter, r *http.Request) {
	var in struct{ Email, Name string }
	if !read(w, r, &in) {
		return
	}
	if in.Email == "" {
		simulate.WriteError(w, http.StatusBadRequest, "email is missing")
		return
	}
	open, err := s.complete(byID(r), in.Email, cmp.Or(in.Name, nameOf(in.Email)))
	s.replyEnded(w, open, err)
}

func (s *instantly) denySession(w http.ResponseWriter, r *http.Request) {
	open, err := s.deny(byID(r))
	s.replyEnded(w, open, err)
}

func (s *instantly) expireSession(w http.ResponseWriter, r *http.Request) {
	open, err := s.finish(byID(r), func(_ *state, x *session) { x.Status = "expired" })
	s.replyEnded(w, open, err)
}

func (s *instantly) forgetSession(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(all *state) bool {
		_, found := all.Sessions[r.PathValue("id")]
		delete(all.Sessions, r.PathValue("id"))
		return found
	})
}

// replyEnded answers a control call that ends a session; open is false when no session was pending.
func (s *instantly) replyEnded(w http.ResponseWriter, open bool, err error) {
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	s.change(w, func(*state) bool { return open })
}

func (s *instantly) setBehaviour(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ListLagMS  *int    `json:"list_lag_ms"`
		NoCursor   *bool   `json:"no_cursor"`
		RepeatPage *bool   `json:"repeat_page"`
		AuthHost   *string `json:"auth_host"`
	}
	if !read(w, r, &in) {
		return
	}
	s.change(w, func(all *state) bool {
		set(&all.ListLagMS, in.ListLagMS)
		set(&all.NoCursor, in.NoCursor)
		set(&all.RepeatPage, in.RepeatPage)
		set(&all.AuthHost, in.AuthHost)
		return true
	})
}
