// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestConsentRedirectsWithResult(t *testing.T) {
	accept, deny := url.Values{"decision": {"accept"}}, url.Values{"decision": {"deny"}}
	for _, tc := range []struct {
		name      string
		olderPage bool       // whether the older consent page is used
		behaviour jsonObject // settings to change before the consent
		form      url.Values
		// want has the parameters of the redirect. "" means that the parameter is absent. A "*" at
		// the end matches any text.
		want map[string]string
	}{
		{"accepted", false, nil, accept, map[string]string{"admin_consent": "True", "scope": graphScope, "error": ""}},
		{"accepted on the older page", true, nil, accept, map[string]string{"admin_consent": "True", "scope": "", "error": ""}},
		{"declined", false, nil, deny,
			map[string]string{"admin_consent": "True", "error": "consent_required", "error_description": "AADSTS65004: *", "tenant": ""}},
		{"declined on the older page", true, nil, deny,
			map[string]string{"admin_consent": "", "error": "permission_denied", "error_description": "The admin canceled the request", "tenant": ""}},
		{"organization not subscribed to Exchange", false, jsonObject{"no_exchange": true}, accept,
			map[string]string{"error": "invalid_resource", "error_description": "AADSTS650052: *", "tenant": ""}},
		{"concurrent consent", false, jsonObject{"consent_busy": true}, accept,
			map[string]string{"error": "*", "error_description": "AADSTS650051: *", "tenant": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newTenant()
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			address := testTenant.consentURL()
			if tc.olderPage {
				address = strings.Replace(address, "/organizations/v2.0/", "/"+testTenant.id+"/", 1)
			}
			tc.form.Set("username", testTenant.admin)
			answer, redirect := testTenant.openPage(address, tc.form)
			if answer.status != http.StatusFound || !strings.HasPrefix(answer.header.Get("Location"), consentRedirectURI+"?") || redirect.Get("state") != "st" {
				t.Fatalf("the redirect is %d %s, want 302 to the redirect URI with the state st", answer.status, answer.header.Get("Location"))
			}
			for name, want := range tc.want {
				got := redirect.Get(name)
				prefix, isPattern := strings.CutSuffix(want, "*")
				if got != want && !(isPattern && got != "" && strings.HasPrefix(got, prefix)) {
					t.Errorf("the parameter %s of the redirect is %q, want %q", name, got, want)
				}
			}
			granted := testTenant.control("GET", "/tenants/"+testTenant.id, nil).valueAt("consent") == "granted"
			if granted != (tc.want["error"] == "") {
				t.Errorf("after the redirect the consent is granted: %v, want %v", granted, !granted)
			}
		})
	}
}

// TestConsentCanBeRepeated repeats a consent that failed because of a concurrent consent. It then
// checks that a further consent keeps the service principal and has no delay.
func TestConsentCanBeRepeated(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	testTenant.setBehaviour(jsonObject{"consent_busy": true})
	testTenant.openPage(testTenant.consentURL(), url.Values{"username": {testTenant.admin}, "decision": {"accept"}})
	testTenant.consent()
	created := testTenant.principal()
	testTenant.setBehaviour(jsonObject{"consent_ms": 60_000})
	testTenant.consent()
	if afterRepeat := testTenant.principal(); afterRepeat != created {
		t.Errorf("the service principal is %s, and after a further consent %s, want the same", created, afterRepeat)
	}
}

func TestConsentRestoresRevokedGrants(t *testing.T) {
	for _, grantName := range []string{"consent", "exchange_role", "app_role"} {
		t.Run(grantName, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			oldToken := bearer(testTenant.token(exchangeScope))
			testTenant.revoke(grantName)
			if answer := testTenant.runCmdletWith(oldToken, "", "Get-OrganizationConfig", jsonObject{}); answer.status != 401 && answer.status != 403 {
				t.Errorf("a token from before the revocation: %d, want 401 or 403", answer.status)
			}
			testTenant.consent()
			if answer := testTenant.runCmdlet("Get-OrganizationConfig", jsonObject{}); answer.status != http.StatusOK {
				t.Errorf("after a further consent: %d %s, want 200", answer.status, answer.raw)
			}
		})
	}
}

// TestNewConsentCreatesNewServicePrincipal revokes the consent, which deletes the service
// principal. The next consent creates a new service principal, so older tokens stay invalid.
func TestNewConsentCreatesNewServicePrincipal(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	deletedPrincipal := testTenant.principal()
	oldGraphToken, oldExchangeToken := bearer(testTenant.token(graphScope)), bearer(testTenant.token(exchangeScope))
	testTenant.revoke("consent")
	testTenant.consent()
	if newPrincipal := testTenant.principal(); newPrincipal == deletedPrincipal {
		t.Errorf("the service principal is %s again, want a new one", newPrincipal)
	}
	assertGolden(t, "graph-identity-not-found", testTenant.do("GET", testTenant.ready.Settings["graph_url"]+"/v1.0/organization", oldGraphToken, ""))
	if answer := testTenant.runCmdletWith(oldExchangeToken, "", "Get-OrganizationConfig", jsonObject{}); answer.status != http.StatusUnauthorized {
		t.Errorf("an Exchange token of the deleted service principal: %d, want 401", answer.status)
	}
	query := "/roleManagement/directory/roleAssignments?$filter=" + url.QueryEscape("principalId eq '"+deletedPrincipal+"'")
	if rows := testTenant.callGraph("GET", query, nil).rows(); len(rows) != 0 {
		t.Errorf("the deleted service principal has the roles %v, want none", rows)
	}
}

func TestConsentPageRefusesInvalidRequests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change url.Values // replaces parameters of the address
		path   string     // replaces organizations/v2.0
		form   url.Values // a username that ends in "@" is completed with the initial domain
		status int
		want   string // a text in the page
	}{
		{name: "redirect URI not registered", change: url.Values{"redirect_uri": {"http://evil.example/connect/microsoft365/callback"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with another path", change: url.Values{"redirect_uri": {consentRedirectURI + "/x"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with a query", change: url.Values{"redirect_uri": {consentRedirectURI + "?a=b"}}, status: 400, want: "AADSTS50011"},
		{name: "redirect URI with https on loopback", change: url.Values{"redirect_uri": {strings.Replace(consentRedirectURI, "http", "https", 1)}}, status: 400, want: "AADSTS50011"},
		{name: "another application", change: url.Values{"client_id": {"11111111-2222-4333-8444-555555555555"}}, status: 400, want: "AADSTS700016"},
		{name: "no scope", change: url.Values{"scope": {""}}, status: 400, want: "AADSTS70011"},
		{name: "newer page refuses common", path: "common/v2.0", status: 400, want: "AADSTS900023"},
		{name: "unknown tenant", path: "11111111-2222-4333-8444-555555555555/v2.0", status: 400, want: "AADSTS90002"},
		{name: "unknown user", form: url.Values{"username": {"nobody@nowhere.example"}, "decision": {"accept"}}, status: 400, want: "AADSTS50020"},
		{name: "user is not an administrator", form: url.Values{"username": {"user@"}, "decision": {"accept"}}, status: 403, want: "AADSTS90094"},
		{name: "no decision", form: url.Values{"username": {"admin@"}}, status: 200, want: `name="decision"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newTenant()
			address, err := url.Parse(testTenant.consentURL())
			if err != nil {
				t.Fatal(err)
			}
			query := address.Query()
			maps.Copy(query, tc.change)
			address.RawQuery = query.Encode()
			if tc.path != "" {
				address.Path = strings.Replace(address.Path, "organizations/v2.0", tc.path, 1)
			}
			if username := tc.form.Get("username"); strings.HasSuffix(username, "@") {
				tc.form.Set("username", username+testTenant.initialDomain())
			}
			answer, _ := testTenant.openPage(address.String(), tc.form)
			if answer.status != tc.status || !strings.Contains(string(answer.raw), tc.want) {
				t.Errorf("the answer is %d %s, want %d with %s", answer.status, answer.raw, tc.status, tc.want)
			}
			if testTenant.control("GET", "/tenants/"+testTenant.id, nil).valueAt("consent") != "none" {
				t.Error("the refused request granted consent")
			}
		})
	}
}

// TestRedirectURIMustBeRegistered replaces the registered URIs. The old URI is refused, and so is
// the new URI with a different port.
func TestRedirectURIMustBeRegistered(t *testing.T) {
	sim := startSimulator(t)
	testTenant := sim.newTenant()
	sim.control("POST", "/app", jsonObject{"redirect_uris": []string{"https://app.example.net/connect/microsoft365/callback"}})
	for uri, want := range map[string]int{
		consentRedirectURI: http.StatusBadRequest,
		"https://app.example.net/connect/microsoft365/callback":     http.StatusOK,
		"https://app.example.net:444/connect/microsoft365/callback": http.StatusBadRequest,
	} {
		address := strings.Replace(testTenant.consentURL(), url.QueryEscape(consentRedirectURI), url.QueryEscape(uri), 1)
		if answer, _ := testTenant.openPage(address, nil); answer.status != want {
			t.Errorf("the redirect URI %s: %d, want %d", uri, answer.status, want)
		}
	}
}

// TestPortOfLoopbackRedirectURIIsIgnored checks that the port of a loopback URI need not match the
// registered port, but host and path must. If the host is not a loopback host, the port must match.
func TestPortOfLoopbackRedirectURIIsIgnored(t *testing.T) {
	for registered, statuses := range map[string]map[string]int{
		"http://127.0.0.1:8080/callback": {
			"http://127.0.0.1:8080/callback": http.StatusOK, "http://127.0.0.1:9090/callback": http.StatusOK, "http://127.0.0.1/callback": http.StatusOK,
			"http://localhost:8080/callback": http.StatusBadRequest, "http://127.0.0.1:8080/other": http.StatusBadRequest,
		},
		"http://localhost:8080/callback": {"http://localhost:8080/callback": http.StatusOK, "http://localhost/callback": http.StatusOK},
		"http://[::1]:8080/callback":     {"http://[::1]:9090/callback": http.StatusOK},
		"https://app.example.net:444/callback": {
			"https://app.example.net:444/callback": http.StatusOK, "https://app.example.net/callback": http.StatusBadRequest,
		},
	} {
		sim := startSimulator(t)
		testTenant := sim.newTenant()
		sim.control("POST", "/app", jsonObject{"redirect_uris": []string{registered}})
		for uri, want := range statuses {
			address := strings.Replace(testTenant.consentURL(), url.QueryEscape(consentRedirectURI), url.QueryEscape(uri), 1)
			if answer, _ := testTenant.openPage(address, nil); answer.status != want {
				t.Errorf("registered %s, requested %s: %d, want %d", registered, uri, answer.status, want)
			}
		}
	}
}

// TestDeniedTenantRefusesRoleAssignment checks a tenant whose administrator does not let the
// application assign roles.
func TestDeniedTenantRefusesRoleAssignment(t *testing.T) {
	testTenant := startSimulator(t).newTenant(jsonObject{"bootstrap": "denied"})
	testTenant.consent()
	assertGolden(t, "graph-denied", testTenant.assignExchange())
	if answer := testTenant.callGraph("GET", "/roleManagement/directory/roleAssignments", nil); answer.status != http.StatusOK {
		t.Errorf("a read of role assignments: %d, want 200", answer.status)
	}
}

// TestPagesWorkWithoutScript checks that a page has labelled fields and buttons, no script, and the
// name of the administrator prefilled.
func TestPagesWorkWithoutScript(t *testing.T) {
	for _, tc := range []struct {
		name    string
		address func(*tenant) string
		buttons []string // name=value
	}{
		{"consent", (*tenant).consentURL, []string{"decision=accept", "decision=deny"}},
		{"sign-in", func(testTenant *tenant) string { return testTenant.signInURL(nil) }, []string{"="}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newTenant()
			address := tc.address(testTenant)
			answer, _ := testTenant.openPage(address, nil)
			if policy := answer.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") {
				t.Errorf("the Content-Security-Policy is %q, want default-src 'none' and frame-ancestors 'none'", policy)
			}
			page := readPage(t, string(answer.raw))
			if page.lang != "en" || page.title == "" || page.headings != 1 || page.scripts != 0 || !strings.Contains(page.viewport, "width=device-width") {
				t.Errorf("the page lacks a language, title, one heading or the viewport, or has a script: %+v", page)
			}
			if page.fields["username"] != testTenant.admin || !page.labelled["username"] {
				t.Errorf("the user name is %q, labelled %v, want %s with a label", page.fields["username"], page.labelled["username"], testTenant.admin)
			}
			if strings.Join(page.buttons, " ") != strings.Join(tc.buttons, " ") {
				t.Errorf("the buttons are %v, want %v", page.buttons, tc.buttons)
			}
			pageURL, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			target, err := pageURL.Parse(page.action)
			if err != nil || page.method != "post" || target.Query().Encode() != pageURL.Query().Encode() || target.Path != pageURL.Path {
				t.Errorf("the form sends %s to %q, %v, want post to the address of the page", page.method, page.action, err)
			}
		})
	}
}

type parsedPage struct {
	lang, title, viewport, action, method string
	headings, scripts                     int
	fields                                map[string]string
	labelled                              map[string]bool
	buttons                               []string // name=value
}

func readPage(t *testing.T, text string) parsedPage {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	page := parsedPage{fields: map[string]string{}, labelled: map[string]bool{}}
	for node := range root.Descendants() {
		attributes := map[string]string{}
		for _, attribute := range node.Attr {
			attributes[attribute.Key] = attribute.Val
		}
		switch node.Data {
		case "html":
			page.lang = attributes["lang"]
		case "title":
			page.title = node.FirstChild.Data
		case "meta":
			if attributes["name"] == "viewport" {
				page.viewport = attributes["content"]
			}
		case "h1":
			page.headings++
		case "script":
			page.scripts++
		case "form":
			page.action, page.method = attributes["action"], attributes["method"]
		case "input":
			page.fields[attributes["name"]] = attributes["value"]
		case "label":
			page.labelled[attributes["for"]] = true
		case "button":
			page.buttons = append(page.buttons, attributes["name"]+"="+attributes["value"])
		}
	}
	return page
}

func TestPagesEscapeTextOfRequest(t *testing.T) {
	testTenant := startSimulator(t).newTenant()
	answer, _ := testTenant.openPage(testTenant.consentURL()+"&login_hint="+url.QueryEscape(`"><script>x</script>`), nil)
	if strings.Contains(string(answer.raw), "<script>") {
		t.Errorf("the page contains the login_hint of the request unescaped: %s", answer.raw)
	}
}
