// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// adminConsent is the page on which an administrator approves the
// application, in its two generations: /v2.0/adminconsent and /adminconsent.
func (s *simulator) adminConsent(w http.ResponseWriter, r *http.Request) {
	q, app := r.URL.Query(), s.registration()
	if refused := s.checkConsent(r, q, app); refused != nil {
		s.refusePage(w, refused)
		return
	}
	if r.Method == http.MethodPost {
		s.decideConsent(w, r, q, app)
		return
	}
	s.consentPage(w, r, q.Get("login_hint"), nil)
}

// v2 reports which generation of the page a request is for.
func v2(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/v2.0/adminconsent") }

// checkConsent says why the page cannot be shown at all. Nothing is sent to a
// redirect URI that is not registered.
func (s *simulator) checkConsent(r *http.Request, q url.Values, app registration) *aadsts {
	name := r.PathValue("tenant")
	if !shared(name) {
		if _, refused := s.tenantOf(r); refused != nil {
			return refused
		}
	}
	switch {
	case !strings.EqualFold(q.Get("client_id"), app.ClientID):
		return errNoPrincipal.of(q.Get("client_id"))
	case !app.redirects(q.Get("redirect_uri")):
		return errRedirect.of(q.Get("redirect_uri"))
	case v2(r) && name == "common":
		return errTenantInvalid.of(name)
	case v2(r) && q.Get("scope") != graphAudience+"/.default":
		return errScope.of(q.Get("scope"))
	}
	return nil
}

func (s *simulator) consentPage(w http.ResponseWriter, r *http.Request, username string, refused *aadsts) {
	p := page{Status: http.StatusOK, Title: "Permissions requested", Application: "tenantry",
		Permissions: s.registration().Permissions, Action: self(r), AskUser: true, Username: username,
		Buttons: []button{{"decision", "accept", "Accept", false}, {"decision", "deny", "Cancel", true}}}
	if username == "" {
		p.Username = s.likelyAdmin(r)
	}
	if refused != nil {
		p.Status, p.Problem = refused.status, refused.description(newGUID(), newGUID(), s.kit.Now())
	}
	s.show(w, p)
}

// self is the address that the form of a page posts to: the page's own, below
// the host's prefix that the router took off.
func self(r *http.Request) string { return loginHost + r.URL.RequestURI() }

// likelyAdmin is the administrator of the tenant that the path names, else of
// the first tenant that has not consented yet.
func (s *simulator) likelyAdmin(r *http.Request) string {
	candidates := s.store.all()
	if f := s.store.find(r.PathValue("tenant")); f != nil {
		candidates = []*simulate.File[tenant]{f}
	}
	last := ""
	for _, f := range candidates {
		open := false
		f.View(func(t *tenant) { last, open = t.admin(), t.Grant.Consent != "granted" })
		if open {
			break
		}
	}
	return last
}

// decideConsent takes the pressed button.
func (s *simulator) decideConsent(w http.ResponseWriter, r *http.Request, q url.Values, app registration) {
	username := strings.TrimSpace(r.PostFormValue("username"))
	f := s.tenantOfUser(r.PathValue("tenant"), username)
	if f == nil {
		s.consentPage(w, r, username, errUnknownUser.of(username))
		return
	}
	var refused *aadsts
	var id string
	f.View(func(t *tenant) {
		id = t.ID
		switch u := t.signInUser(username); {
		case u == nil:
			refused = errUnknownUser.of(username)
		case !t.holds(u.ID, globalAdministrator, s.kit.Now()):
			refused = errNeedsAdmin.of(username)
		}
	})
	switch {
	case refused != nil:
		s.consentPage(w, r, username, refused)
	case r.PostFormValue("decision") == "accept":
		s.finishConsent(w, r, q, id, s.consent(f, app))
	case r.PostFormValue("decision") == "deny":
		s.finishConsent(w, r, q, id, errDeclined.of(""))
	default:
		s.consentPage(w, r, username, nil)
	}
}

// tenantOfUser finds the tenant of a consent or sign-in: the one that the path
// names, else the one that the user's address belongs to.
func (s *simulator) tenantOfUser(name, username string) *simulate.File[tenant] {
	if !shared(name) {
		return s.store.find(name)
	}
	_, domain, _ := strings.Cut(username, "@")
	return s.store.find(domain)
}

// consent grants what the application asks for, and gives back what was
// revoked. A principal that is new, or comes back, takes a while to be seen.
func (s *simulator) consent(f *simulate.File[tenant], app registration) *aadsts {
	var refused *aadsts
	err := f.Do(func(t *tenant) {
		if refused = t.refusesConsent(app); refused != nil {
			return
		}
		now := s.kit.Now()
		if t.Grant.Consent != "granted" {
			t.Grant.Visible = after(now, t.Behaviour.ConsentMS)
		}
		t.Grant.Consent = "granted"
		t.Grant.Roles = slices.Clone(app.Permissions)
		if t.Bootstrap == "denied" {
			t.Grant.Roles = slices.DeleteFunc(t.Grant.Roles, func(r string) bool { return r == roleReadWrite })
		}
		if t.Grant.ExchangeRoleRevoked {
			t.Grant.ExchangeRoleRevoked = false
			t.assign(t.Grant.Principal, exchangeAdministrator, after(now, t.Behaviour.RoleMS))
		}
	})
	if err != nil {
		return errTransient.of("")
	}
	return refused
}

func (t *tenant) refusesConsent(app registration) *aadsts {
	if t.Behaviour.ConsentBusy {
		t.Behaviour.ConsentBusy = false
		return errConsentBusy.of(app.ClientID)
	}
	if t.Behaviour.NoExchange && slices.Contains(app.Permissions, exchangeManageApps) {
		return errNotSubscribed.of(exchangeAppID)
	}
	return nil
}

// finishConsent sends the browser back to the application.
func (s *simulator) finishConsent(w http.ResponseWriter, r *http.Request, q url.Values, id string, refused *aadsts) {
	back := url.Values{}
	switch {
	case refused == nil:
		back.Set("admin_consent", "True")
		back.Set("tenant", id)
		if v2(r) {
			back.Set("scope", q.Get("scope"))
		}
	case !v2(r) && refused.number == errDeclined.number:
		back.Set("error", "permission_denied")
		back.Set("error_description", "The admin canceled the request")
	default:
		if v2(r) {
			// Present although nothing was granted: it is no success flag.
			back.Set("admin_consent", "True")
		}
		back.Set("error", refused.code)
		back.Set("error_description", refused.description(newGUID(), newGUID(), s.kit.Now()))
	}
	redirect(w, r, q.Get("redirect_uri"), q.Get("state"), back)
}

// redirect sends the browser to a registered redirect URI.
func redirect(w http.ResponseWriter, r *http.Request, uri, state string, back url.Values) {
	if state != "" {
		back.Set("state", state)
	}
	to, err := url.Parse(uri)
	if err != nil {
		http.Error(w, "redirect_uri", http.StatusBadRequest)
		return
	}
	query := to.Query()
	for name, values := range back {
		query[name] = values
	}
	to.RawQuery = query.Encode()
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to.String(), http.StatusFound)
}
