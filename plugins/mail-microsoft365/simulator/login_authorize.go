// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const codeLifetime = 10 * time.Minute

type authorizationCode struct {
	Redirect  string    `json:"redirect"`
	Scope     string    `json:"scope"`
	Nonce     string    `json:"nonce"`
	Challenge string    `json:"challenge"`
	Method    string    `json:"method"` // "S256", any other value means plain
	User      string    `json:"user"`   // object id
	IssuedAt  time.Time `json:"issued"`
	Redeemed  bool      `json:"redeemed"`
}

// authorize serves the sign-in page of the authorization code flow.
func (s *simulator) authorize(w http.ResponseWriter, r *http.Request) {
	query, app := r.URL.Query(), s.registration()
	if refusal := s.checkApplication(r, query, app); refusal != nil {
		s.renderError(w, refusal)
		return
	}
	switch {
	case query.Get("response_type") != "code":
		s.answerApplication(w, r, query, errorValues(s, errResponseType.with(query.Get("response_type"))))
	case !slices.Contains(strings.Fields(query.Get("scope")), "openid"):
		s.answerApplication(w, r, query, errorValues(s, errScope.with(query.Get("scope"))))
	case query.Get("prompt") == "none":
		s.answerApplication(w, r, query, errorValues(s, errLoginRequired.with("")))
	case r.Method == http.MethodPost:
		s.signIn(w, r, query, app)
	default:
		s.signInPage(w, r, query.Get("login_hint"), nil)
	}
}

// checkApplication checks the tenant, the application and the redirect URI of a request for a page.
// Its error must not be sent to the redirect URI, because the URI may not be registered.
func (s *simulator) checkApplication(r *http.Request, query url.Values, app registration) *aadsts {
	if !isSharedAuthority(r.PathValue("tenant")) {
		if _, refusal := s.tenantInPath(r); refusal != nil {
			return refusal
		}
	}
	if !strings.EqualFold(query.Get("client_id"), app.ClientID) {
		return errNoPrincipal.with(query.Get("client_id"))
	}
	if !app.allowsRedirect(query.Get("redirect_uri")) {
		return errRedirect.with(query.Get("redirect_uri"))
	}
	return nil
}

// signInPage shows the sign-in form, with an error message if refusal is not nil.
func (s *simulator) signInPage(w http.ResponseWriter, r *http.Request, username string, refusal *aadsts) {
	s.renderForm(w, r, page{Title: "Sign in", Buttons: []button{{"", "", "Sign in", false}}}, username, refusal)
}

func (s *simulator) signIn(w http.ResponseWriter, r *http.Request, query url.Values, app registration) {
	username := strings.TrimSpace(r.PostFormValue("username"))
	f := s.tenantForUser(r.PathValue("tenant"), username)
	if f == nil {
		s.signInPage(w, r, username, errUnknownUser.with(username))
		return
	}
	code, refusal := s.issueCode(f, query, app, username)
	switch {
	case refusal == nil:
		s.answerApplication(w, r, query, url.Values{"code": {code}, "session_state": {newGUID()}})
	case refusal.number == errNotConsented.number:
		s.answerApplication(w, r, query, errorValues(s, refusal))
	default:
		s.signInPage(w, r, username, refusal)
	}
}

// issueCode stores a new authorization code for the user and returns it. It returns an error if the
// user is unknown or disabled, if the tenant has not consented, or if the tenant cannot be saved.
func (s *simulator) issueCode(f *simulate.File[tenant], query url.Values, app registration, username string) (string, *aadsts) {
	code := "1." + randomText(48)
	var refusal *aadsts
	err := f.Do(func(t *tenant) {
		u := t.findSignInUser(username)
		switch {
		case u == nil:
			refusal = errUnknownUser.with(username)
		case !u.Enabled:
			refusal = errUserDisabled.with(username)
		case t.Grant.Consent != "granted":
			refusal = errNotConsented.with(app.ClientID)
		default:
			t.deleteOldCodes(s.kit.Now())
			t.Codes[code] = authorizationCode{Redirect: query.Get("redirect_uri"), Scope: query.Get("scope"), Nonce: query.Get("nonce"),
				Challenge: query.Get("code_challenge"), Method: query.Get("code_challenge_method"), User: u.ID,
				IssuedAt: s.kit.Now()}
		}
	})
	if err != nil {
		return "", errTransient.with("")
	}
	return code, refusal
}

// deleteOldCodes deletes the codes that were issued more than six lifetimes ago. For a younger
// code, checkCode can answer that the code has expired or was used.
func (t *tenant) deleteOldCodes(now time.Time) {
	for code, c := range t.Codes {
		if now.Sub(c.IssuedAt) > 6*codeLifetime {
			delete(t.Codes, code)
		}
	}
}

func errorValues(s *simulator, e *aadsts) url.Values {
	return url.Values{"error": {e.code}, "error_description": {e.description(newGUID(), newGUID(), s.kit.Now())}}
}

// answerApplication sends the response parameters to the redirect URI: as a query, or for the
// response mode form_post with a form. The form has a button, because no page has a script.
func (s *simulator) answerApplication(w http.ResponseWriter, r *http.Request, query, response url.Values) {
	if query.Get("response_mode") != "form_post" {
		redirect(w, r, query.Get("redirect_uri"), query.Get("state"), response)
		return
	}
	p := page{Status: http.StatusOK, Title: "Signed in", Action: query.Get("redirect_uri"),
		Buttons: []button{{"", "", "Continue", false}}}
	if state := query.Get("state"); state != "" {
		response.Set("state", state)
	}
	for name := range response {
		p.Hidden = append(p.Hidden, hiddenField{name, response.Get(name)})
	}
	slices.SortFunc(p.Hidden, func(a, b hiddenField) int { return strings.Compare(a.Name, b.Name) })
	s.renderPage(w, p)
}
