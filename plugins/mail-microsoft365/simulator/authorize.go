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

// codeLife is how long an authorization code can be redeemed.
const codeLife = 10 * time.Minute

// code is an authorization code that was handed out.
type code struct {
	Redirect  string    `json:"redirect"`
	Scope     string    `json:"scope"`
	Nonce     string    `json:"nonce"`
	Challenge string    `json:"challenge"`
	Method    string    `json:"method"` // "S256" or "plain"
	User      string    `json:"user"`   // object id
	Issued    time.Time `json:"issued"`
	Redeemed  bool      `json:"redeemed"`
}

// authorize is the sign-in page of the authorization code flow.
func (s *simulator) authorize(w http.ResponseWriter, r *http.Request) {
	q, app := r.URL.Query(), s.registration()
	if refused := s.checkAuthorize(r, q, app); refused != nil {
		s.refusePage(w, refused)
		return
	}
	switch {
	case q.Get("response_type") != "code":
		s.giveBack(w, r, q, refusal(s, errResponseType.of(q.Get("response_type"))))
	case !slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		s.giveBack(w, r, q, refusal(s, errScope.of(q.Get("scope"))))
	case q.Get("prompt") == "none":
		s.giveBack(w, r, q, refusal(s, errLoginRequired.of("")))
	case r.Method == http.MethodPost:
		s.signIn(w, r, q, app)
	default:
		s.signInPage(w, r, q.Get("login_hint"), nil)
	}
}

// checkAuthorize says why nothing can be given back to the application.
func (s *simulator) checkAuthorize(r *http.Request, q url.Values, app registration) *aadsts {
	if !shared(r.PathValue("tenant")) {
		if _, refused := s.tenantOf(r); refused != nil {
			return refused
		}
	}
	if !strings.EqualFold(q.Get("client_id"), app.ClientID) {
		return errNoPrincipal.of(q.Get("client_id"))
	}
	if !app.redirects(q.Get("redirect_uri")) {
		return errRedirect.of(q.Get("redirect_uri"))
	}
	return nil
}

func (s *simulator) signInPage(w http.ResponseWriter, r *http.Request, username string, refused *aadsts) {
	p := page{Status: http.StatusOK, Title: "Sign in", Action: self(r), AskUser: true, Username: username,
		Buttons: []button{{"", "", "Sign in", false}}}
	if username == "" {
		p.Username = s.likelyAdmin(r)
	}
	if refused != nil {
		p.Status, p.Problem = refused.status, refused.description(newGUID(), newGUID(), s.kit.Now())
	}
	s.show(w, p)
}

// signIn takes the posted user name and hands out a code.
func (s *simulator) signIn(w http.ResponseWriter, r *http.Request, q url.Values, app registration) {
	username := strings.TrimSpace(r.PostFormValue("username"))
	f := s.tenantOfUser(r.PathValue("tenant"), username)
	if f == nil {
		s.signInPage(w, r, username, errUnknownUser.of(username))
		return
	}
	text, refused := s.newCode(f, q, app, username)
	switch {
	case refused == nil:
		s.giveBack(w, r, q, url.Values{"code": {text}, "session_state": {newGUID()}})
	case refused.number == errNotConsented.number:
		s.giveBack(w, r, q, refusal(s, refused))
	default:
		s.signInPage(w, r, username, refused)
	}
}

func (s *simulator) newCode(f *simulate.File[tenant], q url.Values, app registration, username string) (string, *aadsts) {
	text := "1." + randomText(48)
	var refused *aadsts
	err := f.Do(func(t *tenant) {
		u := t.signInUser(username)
		switch {
		case u == nil:
			refused = errUnknownUser.of(username)
		case !u.Enabled:
			refused = errUserDisabled.of(username)
		case t.Grant.Consent != "granted":
			refused = errNotConsented.of(app.ClientID)
		default:
			t.forgetCodes(s.kit.Now())
			t.Codes[text] = code{Redirect: q.Get("redirect_uri"), Scope: q.Get("scope"), Nonce: q.Get("nonce"),
				Challenge: q.Get("code_challenge"), Method: q.Get("code_challenge_method"), User: u.ID,
				Issued: s.kit.Now()}
		}
	})
	if err != nil {
		return "", errTransient.of("")
	}
	return text, refused
}

// forgetCodes drops codes that are long past, used or not.
func (t *tenant) forgetCodes(now time.Time) {
	for text, c := range t.Codes {
		if now.Sub(c.Issued) > 6*codeLife {
			delete(t.Codes, text)
		}
	}
}

// refusal is what the application is told of a refusal.
func refusal(s *simulator, e *aadsts) url.Values {
	return url.Values{"error": {e.code}, "error_description": {e.description(newGUID(), newGUID(), s.kit.Now())}}
}

// giveBack answers the application in the response mode that it asked for. A
// form_post page has a button, since it must work without script.
func (s *simulator) giveBack(w http.ResponseWriter, r *http.Request, q, back url.Values) {
	if q.Get("response_mode") != "form_post" {
		redirect(w, r, q.Get("redirect_uri"), q.Get("state"), back)
		return
	}
	p := page{Status: http.StatusOK, Title: "Signed in", Action: q.Get("redirect_uri"),
		Buttons: []button{{"", "", "Continue", false}}}
	if state := q.Get("state"); state != "" {
		back.Set("state", state)
	}
	for name := range back {
		p.Hidden = append(p.Hidden, field{name, back.Get(name)})
	}
	slices.SortFunc(p.Hidden, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	s.show(w, p)
}
