// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// adminConsent serves both versions of the page on which an administrator grants the permissions of
// the application: /v2.0/adminconsent and /adminconsent.
func (s *simulator) adminConsent(w http.ResponseWriter, r *http.Request) {
	query, app := r.URL.Query(), s.registration()
	if refusal := s.checkConsent(r, query, app); refusal != nil {
		s.renderError(w, refusal)
		return
	}
	if r.Method == http.MethodPost {
		s.submitConsent(w, r, query, app)
		return
	}
	s.consentPage(w, r, query.Get("login_hint"), nil)
}

// isV2Consent reports whether a request is for the newer version of the page.
func isV2Consent(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/v2.0/adminconsent") }

// checkConsent returns the error for a request whose page cannot be shown, or nil.
func (s *simulator) checkConsent(r *http.Request, query url.Values, app registration) *aadsts {
	if refusal := s.checkApplication(r, query, app); refusal != nil {
		return refusal
	}
	switch name := r.PathValue("tenant"); {
	case isV2Consent(r) && name == "common":
		return errTenantInvalid.with(name)
	case isV2Consent(r) && query.Get("scope") != graphAudience+"/.default":
		return errScope.with(query.Get("scope"))
	}
	return nil
}

// consentPage shows the permissions and a form, with an error message if refusal is not nil.
func (s *simulator) consentPage(w http.ResponseWriter, r *http.Request, username string, refusal *aadsts) {
	s.renderForm(w, r, page{Title: "Permissions requested", Application: applicationName, Permissions: s.registration().Permissions,
		Buttons: []button{{"decision", "accept", "Accept", false}, {"decision", "deny", "Cancel", true}}}, username, refusal)
}

// formAction returns the URL to which a page posts its form: the path and the query of the request,
// with the path prefix that the router has removed.
func formAction(r *http.Request) string { return loginHost + r.URL.RequestURI() }

// suggestedAdmin returns the administrator of the tenant in the path. If the path names a shared
// authority, it returns the administrator of the first tenant that has not consented. If all
// tenants have consented, it returns the administrator of the last one.
func (s *simulator) suggestedAdmin(r *http.Request) string {
	candidates := s.store.all()
	if f := s.store.find(r.PathValue("tenant")); f != nil {
		candidates = []*simulate.File[tenant]{f}
	}
	admin := ""
	for _, f := range candidates {
		pending := false
		f.View(func(t *tenant) { admin, pending = t.adminName(), t.Grant.Consent != "granted" })
		if pending {
			break
		}
	}
	return admin
}

func (s *simulator) submitConsent(w http.ResponseWriter, r *http.Request, query url.Values, app registration) {
	username := strings.TrimSpace(r.PostFormValue("username"))
	f := s.tenantForUser(r.PathValue("tenant"), username)
	if f == nil {
		s.consentPage(w, r, username, errUnknownUser.with(username))
		return
	}
	var refusal *aadsts
	var id string
	f.View(func(t *tenant) {
		id = t.ID
		switch u := t.findSignInUser(username); {
		case u == nil:
			refusal = errUnknownUser.with(username)
		case !u.Enabled:
			refusal = errUserDisabled.with(username)
		case !t.hasDirectoryRole(u.ID, globalAdministrator, s.kit.Now()):
			refusal = errNeedsAdmin.with(username)
		}
	})
	switch {
	case refusal != nil:
		s.consentPage(w, r, username, refusal)
	case r.PostFormValue("decision") == "accept":
		s.redirectConsentResult(w, r, query, id, s.grantConsent(f, app))
	case r.PostFormValue("decision") == "deny":
		s.redirectConsentResult(w, r, query, id, errDeclined.with(""))
	default:
		s.consentPage(w, r, username, nil)
	}
}

// tenantForUser returns the tenant in the path. For a shared authority it returns the tenant that
// has the domain of the user name. It returns nil if there is no such tenant.
func (s *simulator) tenantForUser(name, username string) *simulate.File[tenant] {
	if !isSharedAuthority(name) {
		return s.store.find(name)
	}
	_, domain, _ := strings.Cut(username, "@")
	return s.store.find(domain)
}

// grantConsent grants the permissions of the registration. In a tenant with bootstrap "denied", it
// does not grant the permission to assign roles. After a new consent, the login host issues no
// app-only token until ConsentMS has passed. A repeated consent does not start this delay again.
//
// grantConsent also restores a revoked Exchange role, so that a consent undoes a revocation in the
// sandbox. At Microsoft, a consent restores no role. If the consent was revoked, grantConsent
// creates a new service principal, and the restored role applies at once.
func (s *simulator) grantConsent(f *simulate.File[tenant], app registration) *aadsts {
	var refusal *aadsts
	err := f.Do(func(t *tenant) {
		if refusal = t.consentError(app); refusal != nil {
			return
		}
		now := s.kit.Now()
		roleLag := startLag(now, t.Behaviour.RoleMS)
		if t.Grant.Consent != "granted" {
			t.Grant.VisibilityLag = startLag(now, t.Behaviour.ConsentMS)
		}
		if t.Grant.Consent == "revoked" {
			t.Grant.Principal, roleLag = guid("principal", t.Grant.Principal), lag{}
		}
		t.Grant.Consent = "granted"
		t.Grant.Roles = slices.Clone(app.Permissions)
		if t.Bootstrap == "denied" {
			t.Grant.Roles = slices.DeleteFunc(t.Grant.Roles, func(r string) bool { return r == roleReadWrite })
		}
		if t.Grant.ExchangeRoleRevoked {
			t.Grant.ExchangeRoleRevoked = false
			t.assignRole(t.Grant.Principal, exchangeAdministrator, roleLag)
		}
		t.recordSnapshot(now)
	})
	if err != nil {
		return errTransient.with("")
	}
	return refusal
}

// consentError returns the error with which the tenant rejects consent, or nil. It clears the
// setting ConsentBusy, which applies to one request.
func (t *tenant) consentError(app registration) *aadsts {
	if t.Behaviour.ConsentBusy {
		t.Behaviour.ConsentBusy = false
		return errConsentBusy.with(app.ClientID)
	}
	if t.Behaviour.NoExchange && slices.Contains(app.Permissions, exchangeManageApps) {
		return errNotSubscribed.with(exchangeAppID)
	}
	return nil
}

func (s *simulator) redirectConsentResult(w http.ResponseWriter, r *http.Request, query url.Values, id string, refusal *aadsts) {
	response := url.Values{}
	switch {
	case refusal == nil:
		response.Set("admin_consent", "True")
		response.Set("tenant", id)
		if isV2Consent(r) {
			response.Set("scope", query.Get("scope"))
		}
	case !isV2Consent(r) && refusal.number == errDeclined.number:
		response.Set("error", "permission_denied")
		response.Set("error_description", "The admin canceled the request")
	default:
		if isV2Consent(r) {
			// Microsoft also sends admin_consent if nothing was granted, so it does not mean that
			// the consent succeeded.
			response.Set("admin_consent", "True")
		}
		response.Set("error", refusal.code)
		response.Set("error_description", refusal.description(newGUID(), newGUID(), s.kit.Now()))
	}
	redirect(w, r, query.Get("redirect_uri"), query.Get("state"), response)
}

// redirect sends the browser to a registered redirect URI with the state and the parameters in
// response.
func redirect(w http.ResponseWriter, r *http.Request, uri, state string, response url.Values) {
	if state != "" {
		response.Set("state", state)
	}
	target, err := url.Parse(uri)
	if err != nil {
		http.Error(w, "redirect_uri", http.StatusBadRequest)
		return
	}
	query := target.Query()
	maps.Copy(query, response)
	target.RawQuery = query.Encode()
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, target.String(), http.StatusFound)
}
