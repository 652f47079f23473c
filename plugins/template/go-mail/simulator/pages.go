// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// login is a sign-in of a person, until the application redeems its code.
type login struct {
	Tenant    string `json:"tenant"`
	Nonce     string `json:"nonce"`
	Challenge string `json:"challenge"`
	Redirect  string `json:"redirect"`
	Username  string `json:"username"`
}

var page = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>{{.}}</title><h1>{{.}}</h1>
<form method="post"><label>Username <input name="username" required></label>
<button name="decision" value="accept">Continue</button> <button name="decision" value="deny" formnovalidate>Cancel</button></form></html>
`))

// readDecision reads the decision of a person on a page. If the person has not decided yet, or the
// request is not valid, readDecision answers the request, and done is false.
func readDecision(w http.ResponseWriter, r *http.Request, title string) (username string, accepted, done bool) {
	redirect, err := url.Parse(r.URL.Query().Get("redirect"))
	switch {
	case err != nil || redirect.Host == "":
		http.Error(w, "the link has no address to return to", http.StatusBadRequest)
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, title)
	case r.Method != http.MethodPost:
		http.Error(w, "the method is GET or POST", http.StatusMethodNotAllowed)
	default:
		return r.PostFormValue("username"), r.PostFormValue("decision") == "accept", true
	}
	return "", false, false
}

// goBack redirects the browser to the application with a query.
func goBack(w http.ResponseWriter, r *http.Request, query url.Values) {
	query.Set("state", r.URL.Query().Get("state"))
	http.Redirect(w, r, r.URL.Query().Get("redirect")+"?"+query.Encode(), http.StatusSeeOther)
}

// consent is the page on which an administrator grants the application access to the tenant.
func (s *simulator) consent(w http.ResponseWriter, r *http.Request) {
	username, accepted, done := readDecision(w, r, "Let tenantry manage your mail?")
	if !done {
		return
	}
	tenantID := ""
	err := s.state.Do(func(platformState *state) {
		for _, t := range platformState.Tenants {
			if !strings.EqualFold(t.admin(), username) {
				continue
			}
			if tenantID = t.ID; accepted {
				t.ConsentAt = s.kit.Now().Add(milliseconds(t.Behaviour.ConsentMS))
			}
		}
	})
	switch {
	case err != nil:
		http.Error(w, "the platform failed", http.StatusInternalServerError)
	case !accepted:
		goBack(w, r, url.Values{"error": {"denied"}})
	case tenantID == "":
		http.Error(w, "only an administrator can agree", http.StatusForbidden)
	default:
		goBack(w, r, url.Values{"tenant": {tenantID}})
	}
}

// signIn is the page on which a person signs in to the tenant of the link.
func (s *simulator) signIn(w http.ResponseWriter, r *http.Request) {
	username, accepted, done := readDecision(w, r, "Sign in")
	if !done {
		return
	}
	if !accepted {
		goBack(w, r, url.Values{"error": {"denied"}})
		return
	}
	query, code := r.URL.Query(), rand.Text()
	err := s.state.Do(func(platformState *state) {
		platformState.Codes[code] = login{Tenant: query.Get("tenant"), Nonce: query.Get("nonce"), Challenge: query.Get("challenge"), Redirect: query.Get("redirect"), Username: username}
	})
	if err != nil {
		http.Error(w, "the platform failed", http.StatusInternalServerError)
		return
	}
	goBack(w, r, url.Values{"code": {code}})
}

// redeemCode serves POST /logins. It returns the person who signed in. A code works once.
func redeemCode(c *call) (any, string) {
	var body struct {
		Code     string `json:"code"`
		Verifier string `json:"verifier"`
		Redirect string `json:"redirect"`
	}
	c.read(&body)
	signIn, found := c.platformState.Codes[body.Code]
	delete(c.platformState.Codes, body.Code)
	sum := sha256.Sum256([]byte(body.Verifier))
	t := c.platformState.Tenants[signIn.Tenant]
	if !found || t == nil || signIn.Redirect != body.Redirect || signIn.Challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		return nil, "login_refused"
	}
	local, _, _ := strings.Cut(signIn.Username, "@")
	return map[string]any{
		"tenant": signIn.Tenant, "nonce": signIn.Nonce, "username": signIn.Username, "name": local,
		"administrator": strings.EqualFold(signIn.Username, t.admin()),
	}, ""
}
