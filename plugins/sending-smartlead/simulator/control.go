// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the control interface:
//
//	GET /_control/accounts                all accounts, with the members of the API
//	PUT /_control/accounts/{address}      {"is_smtp_success": false, …}: creates or changes one
//	DELETE /_control/accounts/{address}   removes one
//	PUT /_control/keys/{key}              {"user_id": 4002, "revoked": false}
//	PUT /_control/clients                 [{"id": 7, "name": "…"}]: replaces all
//	PUT /_control/plan                    {"plan": "standard"}; also pro, and enterprise without limits
//	PUT /_control/quirks                  {"numbers_as_strings": true, …}: replaces all
func (s *smartlead) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", func(w http.ResponseWriter, _ *http.Request) {
		all := []account{}
		s.file.View(func(st *state) {
			for _, a := range st.Accounts {
				all = append(all, *a)
			}
		})
		simulate.WriteJSON(w, http.StatusOK, all)
	})
	mux.HandleFunc("PUT /_control/accounts/{address}", s.putAccount)
	mux.HandleFunc("DELETE /_control/accounts/{address}", func(w http.ResponseWriter, r *http.Request) {
		simulate.ChangeOrNotFound(w, s.file, "no such account", func(st *state) bool {
			before := len(st.Accounts)
			st.Accounts = slices.DeleteFunc(st.Accounts, func(a *account) bool { return strings.EqualFold(a.FromEmail, r.PathValue("address")) })
			return len(st.Accounts) < before
		})
	})
	mux.HandleFunc("PUT /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		in := keyOwner{UserID: FirstUser}
		simulate.Change(w, r, s.file, &in, func(st *state) { st.Keys[r.PathValue("key")] = &in })
	})
	mux.HandleFunc("PUT /_control/clients", func(w http.ResponseWriter, r *http.Request) {
		var in []client
		simulate.Change(w, r, s.file, &in, func(st *state) {
			for i := range in {
				if in[i].UserID == 0 {
					in[i].UserID = FirstUser
				}
			}
			st.Clients = in
		})
	})
	mux.HandleFunc("PUT /_control/plan", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Plan string `json:"plan"`
		}
		if err := simulate.ReadBody(r, &in); err != nil {
			simulate.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		if _, known := plans[in.Plan]; !known {
			simulate.WriteError(w, http.StatusBadRequest, "plan is standard, pro or enterprise")
			return
		}
		simulate.ReplyDone(w, s.file.Do(func(st *state) { st.Plan = in.Plan }))
	})
	mux.HandleFunc("PUT /_control/quirks", func(w http.ResponseWriter, r *http.Request) {
		var in quirks
		simulate.Change(w, r, s.file, &in, func(st *state) { st.Quirks = in })
	})
	return simulate.ControlCalls(mux, nil)
}

// putAccount creates or changes an account. Unless the request sets them, a new account is
// connected and belongs to the first user.
func (s *smartlead) putAccount(w http.ResponseWriter, r *http.Request) {
	address := r.PathValue("address")
	in := account{UserID: FirstUser, FromEmail: address, Username: address, Type: "OUTLOOK", SMTP: pointerToTrue(), IMAP: pointerToTrue(), PerDay: 20}
	s.file.View(func(st *state) {
		for _, a := range st.Accounts {
			if strings.EqualFold(a.FromEmail, address) {
				in = a.clone()
			}
		}
	})
	created := in.ID == 0
	now := s.kit.Now()
	simulate.Change(w, r, s.file, &in, func(st *state) {
		a := st.account(in.UserID, address)
		if created || a == nil {
			a = st.add(in.UserID, address, now)
		}
		in.ID, in.Created, in.Updated = a.ID, a.Created, simulate.FormatTime(now)
		*a = in
	})
}
