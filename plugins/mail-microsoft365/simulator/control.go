// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strconv"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// control is this provider's part of the sandbox's control interface.
func (s *simulator) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/tenants", s.controlCreate)
	mux.HandleFunc("GET /_control/tenants", s.controlList)
	mux.HandleFunc("GET /_control/tenants/{id}", s.controlShow)
	mux.HandleFunc("POST /_control/tenants/{id}/revoke", s.controlRevoke)
	mux.HandleFunc("POST /_control/tenants/{id}/behaviour", s.controlBehaviour)
	mux.HandleFunc("POST /_control/tenants/{id}/rules", s.controlRule)
	mux.HandleFunc("POST /_control/app", s.controlApp)
	mux.HandleFunc("POST /_control/messages", s.controlMessages)
	return simulate.Calls(mux, nil)
}

// newTenant is the body of POST /_control/tenants.
type newTenant struct {
	Name      string `json:"name"`
	Bootstrap string `json:"bootstrap"`
	SMTPAuth  string `json:"smtp_auth"`
}

func (s *simulator) controlCreate(w http.ResponseWriter, r *http.Request) {
	in := newTenant{Bootstrap: "ready", SMTPAuth: "allowed"}
	if err := simulate.Read(r, &in); err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	switch {
	case in.Bootstrap != "ready" && in.Bootstrap != "dehydrated" && in.Bootstrap != "denied":
		simulate.Refuse(w, http.StatusBadRequest, "bootstrap is ready, dehydrated or denied")
		return
	case in.SMTPAuth != "allowed" && in.SMTPAuth != "refused":
		simulate.Refuse(w, http.StatusBadRequest, "smtp_auth is allowed or refused")
		return
	}
	t, err := s.store.add(func(serial int) tenant { return s.freshTenant(serial, in) })
	if err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.Reply(w, http.StatusOK, map[string]string{"tenant_id": t.ID, "admin": t.admin()})
}

func (s *simulator) controlList(w http.ResponseWriter, _ *http.Request) {
	list := []map[string]string{}
	for _, f := range s.store.all() {
		f.View(func(t *tenant) {
			list = append(list, map[string]string{"tenant_id": t.ID, "admin": t.admin(), "name": t.Name,
				"consent": t.Grant.Consent})
		})
	}
	simulate.Reply(w, http.StatusOK, list)
}

// controlTenant runs fn with the tenant that the path names and answers {}, or
// what fn says is wrong.
func (s *simulator) controlTenant(w http.ResponseWriter, r *http.Request, fn func(*tenant) error) bool {
	id := r.PathValue("id")
	f := s.store.find(id)
	if f == nil || !guidForm.MatchString(id) {
		simulate.Refuse(w, http.StatusNotFound, "there is no such tenant")
		return false
	}
	var bad error
	if err := f.Do(func(t *tenant) { bad = fn(t) }); err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
		return false
	}
	if bad != nil {
		simulate.Refuse(w, http.StatusBadRequest, bad.Error())
	}
	return bad == nil
}

// freshTenant is a tenant that nobody has connected yet: an administrator, an
// ordinary member and a guest, and no custom domain.
func (s *simulator) freshTenant(serial int, in newTenant) tenant {
	now, seed := s.kit.Now(), s.registration().Seed
	key := func(what string) string { return guid(seed, "tenant", strconv.Itoa(serial), what) }
	t := tenant{
		ID: key("id"), Name: in.Name, Serial: serial, Created: now,
		Bootstrap: in.Bootstrap, SMTPAuth: in.SMTPAuth, Behaviour: usual(),
		Grant: grant{Consent: "none", Principal: key("principal")},
		Codes: map[string]code{},
	}
	if t.Name == "" {
		t.Name = "Example Outreach " + strconv.Itoa(serial)
	}
	t.Prefix = prefixOf(t.Name) + digits(6, seed, t.ID)
	t.Exchange = organization{Dehydrated: in.Bootstrap == "dehydrated", SMTPAuthDisabled: true}
	t.populate(key, now)
	return t
}
