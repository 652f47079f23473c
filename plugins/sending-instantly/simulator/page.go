// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	tooLate   = "This link is not open any more: it is unknown, was used, or is older than ten minutes. Ask for a new one."
	noAddress = "Enter the address of the mailbox that signs in."
)

func (s *instantly) show(w http.ResponseWriter, p simulate.SignInPage) {
	p.Platform = "Instantly"
	p.Show(w)
}

// byState finds the session of a link.
func byState(r *http.Request) func(*session) bool {
	state := r.URL.Query().Get("state")
	return func(x *session) bool { return x.State == state }
}

func (s *instantly) showPage(w http.ResponseWriter, r *http.Request) {
	open := false
	s.file.View(func(all *state) {
		for _, x := range all.Sessions {
			open = open || byState(r)(x) && x.at(s.kit.Now()) == "pending"
		}
	})
	if !open {
		s.show(w, simulate.SignInPage{Status: http.StatusGone, Problem: tooLate})
		return
	}
	s.show(w, simulate.SignInPage{Action: r.URL.RequestURI(), Username: r.URL.Query().Get("login_hint")})
}

func (s *instantly) submitPage(w http.ResponseWriter, r *http.Request) {
	var open bool
	var err error
	username, address := simulate.Username(r)
	switch r.PostFormValue("decision") {
	case "accept":
		if !address {
			s.show(w, simulate.SignInPage{Status: http.StatusBadRequest, Problem: noAddress, Action: r.URL.RequestURI(), Username: username})
			return
		}
		open, err = s.complete(byState(r), username, nameOf(username))
	case "deny":
		open, err = s.deny(byState(r))
	default:
		s.show(w, simulate.SignInPage{Status: http.StatusBadRequest, Problem: "Accept or cancel.", Action: r.URL.RequestURI(), Username: username})
		return
	}
	switch {
	case err != nil:
		s.show(w, simulate.SignInPage{Status: http.StatusInternalServerError, Problem: err.Error()})
	case !open:
		s.show(w, simulate.SignInPage{Status: http.StatusGone, Problem: tooLate})
	default:
		s.show(w, simulate.SignInPage{})
	}
}

// nameOf makes a person's name of an address, as ann.lee@… is Ann Lee.
func nameOf(address string) string {
	local, _, _ := strings.Cut(address, "@")
	words := strings.FieldsFunc(local, func(r rune) bool { return r == '.' || r == '-' || r == '_' })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}
