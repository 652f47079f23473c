// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
)

// platform stores the state of consent of each tenant, and records the control calls for which it
// has no handler.
type platform struct {
	path string

	mu      sync.Mutex
	Consent map[string]string // by tenant id
	Calls   []string          // the recorded control calls
}

func (p *platform) load() {
	p.Consent = map[string]string{}
	if raw, err := os.ReadFile(p.path); err == nil {
		_ = json.Unmarshal(raw, p)
	}
}

func (p *platform) change(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	raw, _ := json.Marshal(p)
	_ = os.WriteFile(p.path, raw, 0o600)
}

func (p *platform) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/tenants", p.add)
	mux.HandleFunc("GET /_control/tenants/{id}", p.show)
	mux.HandleFunc("GET /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		p.change(func() { _ = json.NewEncoder(w).Encode(p.Calls) })
	})
	mux.HandleFunc("/_control/", p.recordCall)
	mux.HandleFunc("/login/consent", p.consent)
	mux.HandleFunc("/login/signin", p.signIn)
	return mux
}

func (p *platform) add(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Bootstrap string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Bootstrap == "odd" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"bootstrap is odd"}`)
		return
	}
	p.change(func() {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(p.Consent)+1)
		p.Consent[id] = "none"
		_ = json.NewEncoder(w).Encode(map[string]string{"tenant_id": id, "admin": "admin@" + id})
	})
}

func (p *platform) show(w http.ResponseWriter, r *http.Request) {
	p.change(func() {
		consent, ok := p.Consent[r.PathValue("id")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"consent": consent})
	})
}

func (p *platform) recordCall(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.change(func() { p.Calls = append(p.Calls, r.Method+" "+r.URL.Path+" "+string(body)) })
	_, _ = io.WriteString(w, "{}")
}

const form = `<!doctype html><title>%s</title><form method="post"><input type="hidden" name="kept" value="yes">
<p>As <input name="username" value="%s"></p>%s</form>`

// consent shows the consent form. When the form is accepted, it redirects the browser to the
// service with the tenant of the username.
func (p *platform) consent(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, form, "Consent", "", `<button name="decision" value="deny">No</button><button name="decision" value="accept">Yes</button>`)
		return
	}
	_, id, _ := strings.Cut(r.PostFormValue("username"), "@")
	accepted := false
	p.change(func() {
		_, exists := p.Consent[id]
		accepted = exists && r.PostFormValue("decision") == "accept" && r.PostFormValue("kept") == "yes"
		if accepted {
			p.Consent[id] = "granted"
		}
	})
	if !accepted {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<h1>Who\n are you?</h1>")
		return
	}
	redirectBack(w, r, url.Values{"tenant": {id}})
}

// signIn shows the sign-in form for the expected administrator. When the form is submitted, it
// redirects the browser to the service.
func (p *platform) signIn(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, form, "Sign in", html.EscapeString(r.URL.Query().Get("hint")), `<input type="submit" value="Next">`)
		return
	}
	redirectBack(w, r, url.Values{"code": {r.PostFormValue("username")}})
}

func redirectBack(w http.ResponseWriter, r *http.Request, q url.Values) {
	q.Set("state", r.URL.Query().Get("state"))
	http.Redirect(w, r, r.URL.Query().Get("redirect")+"?"+q.Encode(), http.StatusFound)
}
