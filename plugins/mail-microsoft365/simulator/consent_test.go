// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestConsentAnswers(t *testing.T) {
	accept, deny := url.Values{"decision": {"accept"}}, url.Values{"decision": {"deny"}}
	for _, tt := range []struct {
		name   string
		v1     bool
		before m
		form   url.Values
		want   map[string]string // of the redirect; "*" for any text, "" for absent
	}{
		{"accepted", false, nil, accept, map[string]string{"admin_consent": "True", "scope": graphScope, "error": ""}},
		{"accepted on the older page", true, nil, accept, map[string]string{"admin_consent": "True", "scope": "", "error": ""}},
		{"declined", false, nil, deny,
			map[string]string{"admin_consent": "True", "error": "consent_required", "error_description": "AADSTS65004: *", "tenant": ""}},
		{"declined on the older page", true, nil, deny,
			map[string]string{"admin_consent": "", "error": "permission_denied", "error_description": "The admin canceled the request", "tenant": ""}},
		{"organization not subscribed to Exchange", false, m{"no_exchange": true}, accept,
			map[string]string{"error": "invalid_resource", "error_description": "AADSTS650052: *", "tenant": ""}},
		{"principal made at the same moment", false, m{"consent_busy": true}, accept,
			map[string]string{"error": "*", "error_description": "AADSTS650051: *", "tenant": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).newTenant()
			if tt.before != nil {
				tn.behave(tt.before)
			}
			address := tn.consentURL()
			if tt.v1 {
				address = strings.Replace(address, "/organizations/v2.0/", "/"+tn.id+"/", 1)
			}
			tt.form.Set("username", tn.admin)
			a, back := tn.page(address, tt.form)
			if a.status != http.StatusFound || !strings.HasPrefix(a.header.Get("Location"), callback+"?") || back.Get("state") != "st" {
				t.Fatalf("%d %s", a.status, a.header.Get("Location"))
			}
			for name, want := range tt.want {
				got := back.Get(name)
				prefix, any := strings.CutSuffix(want, "*")
				if got != want && !(any && got != "" && strings.HasPrefix(got, prefix)) {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			granted := tn.control("GET", "/tenants/"+tn.id, nil).at("consent") == "granted"
			if granted != (tt.want["error"] == "") {
				t.Errorf("granted: %v", granted)
			}
		})
	}
}

// TestConsentAgain: a consent that met another one goes through when tried
// again, and a second one changes nothing.
func TestConsentAgain(t *testing.T) {
	tn := start(t).newTenant()
	tn.behave(m{"consent_busy": true})
	tn.page(tn.consentURL(), url.Values{"username": {tn.admin}, "decision": {"accept"}})
	tn.consent()
	first := tn.principal()
	tn.behave(m{"consent_ms": 60_000})
	tn.consent()
	if second := tn.principal(); second != first {
		t.Errorf("principal %s, then %s", first, second)
	}
}

// TestConsentGivesBack: what was revoked is back with a new consent.
func TestConsentGivesBack(t *testing.T) {
	for _, what := range []string{"consent", "exchange_role", "app_role"} {
		t.Run(what, func(t *testing.T) {
			tn := start(t).connected()
			old := bearer(tn.token(exchangeScope))
			tn.revoke(what)
			if a := tn.exchangeWith(old, "", "Get-OrganizationConfig", m{}); a.status != 401 && a.status != 403 {
				t.Errorf("a token issued before still works: %d", a.status)
			}
			tn.consent()
			if a := tn.exchange("Get-OrganizationConfig", m{}); a.status != http.StatusOK {
				t.Errorf("after consent: %d %s", a.status, a.raw)
			}
		})
	}
}

func TestConsentPageRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change url.Values
		path   string // in place of organizations/v2.0
		form   url.Values
		status int
		want   string
	}{
		{name: "redirect URI not registered", change: url.Values{"redirect_uri": {"http://evil.example/connect/microsoft365/callback"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with another path", change: url.Values{"redirect_uri": {callback + "/x"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with a query", change: url.Values{"redirect_uri": {callback + "?a=b"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with https on loopback", change: url.Values{"redirect_uri": {strings.Replace(callback, "http", "https", 1)}}, status: 400, want: "AADSTS50011"},
		{name: "another application", change: url.Values{"client_id": {"11111111-2222-4333-8444-555555555555"}}, status: 400, want: "AADSTS700016"},
		{name: "no scope", change: url.Values{"scope": {""}}, status: 400, want: "AADSTS70011"},
		{name: "common is of the older page only", path: "common/v2.0", status: 400, want: "AADSTS900023"},
		{name: "unknown tenant", path: "11111111-2222-4333-8444-555555555555/v2.0", status: 400, want: "AADSTS90002"},
		{name: "unknown user", form: url.Values{"username": {"nobody@nowhere.example"}, "decision": {"accept"}}, status: 400, want: "AADSTS50020"},
		{name: "no administrator", form: url.Values{"username": {"user@"}, "decision": {"accept"}}, status: 403, want: "AADSTS90094"},
		{name: "no decision", form: url.Values{"username": {"admin@"}}, status: 200, want: `name="decision"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).newTenant()
			address, err := url.Parse(tn.consentURL())
			if err != nil {
				t.Fatal(err)
			}
			q := address.Query()
			for name, values := range tt.change {
				q[name] = values
			}
			address.RawQuery = q.Encode()
			if tt.path != "" {
				address.Path = strings.Replace(address.Path, "organizations/v2.0", tt.path, 1)
			}
			if name, short := strings.CutSuffix(tt.form.Get("username"), "@"); short && tt.form != nil {
				tt.form.Set("username", name+"@"+tn.initial())
			}
			a, _ := tn.page(address.String(), tt.form)
			if a.status != tt.status || !strings.Contains(string(a.raw), tt.want) {
				t.Errorf("%d %s", a.status, a.raw)
			}
			if tn.control("GET", "/tenants/"+tn.id, nil).at("consent") != "none" {
				t.Error("something was granted")
			}
		})
	}
}

// TestRedirectURIs: registered ones can be changed, and only loopback ignores
// the port.
func TestRedirectURIs(t *testing.T) {
	s := start(t)
	tn := s.newTenant()
	s.control("POST", "/app", m{"redirect_uris": []string{"https://app.example.net/connect/microsoft365/callback"}})
	for uri, want := range map[string]int{
		callback: http.StatusBadRequest,
		"https://app.example.net/connect/microsoft365/callback":     http.StatusOK,
		"https://app.example.net:444/connect/microsoft365/callback": http.StatusBadRequest,
	} {
		address := strings.Replace(tn.consentURL(), url.QueryEscape(callback), url.QueryEscape(uri), 1)
		if a, _ := tn.page(address, nil); a.status != want {
			t.Errorf("%s: %d, want %d", uri, a.status, want)
		}
	}
}

// TestDeniedTenant: its administrator does not let the application assign
// roles, so bootstrap cannot succeed.
func TestDeniedTenant(t *testing.T) {
	tn := start(t).newTenant(m{"bootstrap": "denied"})
	tn.consent()
	golden(t, "graph-denied", tn.assignExchange())
	if a := tn.graph("GET", "/roleManagement/directory/roleAssignments", nil); a.status != http.StatusOK {
		t.Errorf("reading roles: %d", a.status)
	}
}
