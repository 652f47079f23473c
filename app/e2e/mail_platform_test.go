// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/template"
)

// microsoftNames matches the names of Microsoft, and words from which a reader recognizes its
// products.
var microsoftNames = regexp.MustCompile(`(?i)microsoft|office ?365|outlook|entra\b|exchange (online|admin|not ready)`)

// vendorCheck is a transport that fails the test if an answer names Microsoft or its products.
type vendorCheck struct {
	t       *testing.T
	answers atomic.Int64
}

func (v *vendorCheck) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	var head bytes.Buffer
	_ = answer.Header.Write(&head) // writing to memory does not fail
	for _, text := range []string{head.String(), string(raw)} {
		if match := microsoftNames.FindStringIndex(text); match != nil {
			v.t.Errorf("the answer to %s %s names Microsoft or its products: …%s…", r.Method, r.URL.Path, text[max(0, match[0]-100):min(len(text), match[1]+100)])
		}
	}
	v.answers.Add(1)
	return answer, nil
}

// TestADifferentMailPlatformServes takes a tenant from the consent to mailboxes, and removes it,
// with the mail plugins that `tenantry plugin new` creates. Halfway, the plugin is built again, and
// the running sandbox uses the new program with the same tenant. No answer that goes through
// vendorCheck may name Microsoft.
func TestADifferentMailPlatformServes(t *testing.T) {
	t.Parallel()
	for _, language := range template.Languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			walkWithMailPlatform(t, newPluginInDevelopment(t, "mail", "example", language))
		})
	}
}

// walkWithMailPlatform starts a sandbox with a mail plugin, and connects and removes a tenant.
func walkWithMailPlatform(t *testing.T, plugin pluginInDevelopment) {
	t.Helper()
	sandboxProcess, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, "--plugin", plugin.module.dir)
	check := &vendorCheck{t: t}
	service, err := url.Parse(ready.APIURL)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(service)
	proxy.Transport = check
	proxyServer := httptest.NewServer(proxy)
	t.Cleanup(proxyServer.Close)
	ready.APIURL = proxyServer.URL
	c := seededAccount(t, ready)
	if len(ready.Tenants) == 0 || !strings.HasSuffix(ready.Tenants[0].Admin, ".mail.example") {
		t.Fatalf("the tenants of the sandbox are %v, want an administrator at .mail.example", ready.Tenants)
	}
	tenant := accountTenant{c, ready.Tenants[0].TenantID, ready.Tenants[0].Admin}
	tenant.setBehaviour(object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0})

	tenant.connectByHand(check, service.Host)
	tenant.mustSync()
	checkValues(t, tenant.get(tenant.path("")).object, object{"connected_by": tenant.admin, "exchange_bootstrap_status": "ready", "readiness.smtp_auth": "enabled"})

	zone := tenant.addSignedDomain()
	plugin.upgrade(c, sandboxProcess)
	tenant.limitMailboxes(zone)
	tenant.removeEverything(zone)
	if calls := c.control("GET", "/calls?provider=microsoft365", nil); string(bytes.TrimSpace(calls.raw)) != "[]" {
		t.Errorf("the simulated Microsoft 365 was called: %s", calls.raw)
	}
	if n := check.answers.Load(); n < 40 {
		t.Errorf("only %d answers were checked, want at least 40", n)
	}
}

// connectByHand opens the pages of the service and of the mail platform. First a person declines,
// then a person who is not an administrator signs in, then the administrator connects the tenant.
func (tenant accountTenant) connectByHand(check *vendorCheck, host string) {
	tenant.t.Helper()
	browser := newBrowser(tenant.t)
	browser.client.Transport = check
	callback := func(decision string) page {
		address := browser.answerConsent(tenant.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, decision)
		if to, err := url.Parse(address); err != nil || to.Host != host || to.Path != "/connect/example/callback" {
			tenant.t.Fatalf("the platform redirects to %s, want the callback page", address)
		}
		return browser.open(address)
	}
	signIn := func(username string) page {
		address := browser.submit(browser.open(callback("accept").location), url.Values{"username": {username}, "decision": {"accept"}}).location
		if to, err := url.Parse(address); err != nil || to.Path != "/connect/example/signin" {
			tenant.t.Fatalf("the platform redirects to %s, want the sign-in page of the service", address)
		}
		return browser.open(address)
	}
	if declined := callback("deny"); declined.status != http.StatusForbidden {
		tenant.t.Errorf("a declined consent is answered %d %s, want 403", declined.status, declined.text)
	}
	if refused := signIn(strings.Replace(tenant.admin, "admin@", "member@", 1)); refused.status != http.StatusForbidden {
		tenant.t.Errorf("the sign-in of a member is answered %d %s, want 403", refused.status, refused.text)
	}
	tenant.checkTenants()
	confirmation := signIn(tenant.admin)
	for _, words := range []string{tenant.ready.Tenants[0].Name, tenant.guid, ".mail.example", tenant.email, tenant.admin} {
		if !strings.Contains(confirmation.text, words) {
			tenant.t.Errorf("the page does not say %q: %s", words, confirmation.text)
		}
	}
	if result := browser.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
		tenant.t.Errorf("the confirmation is answered %d %s, want 200", result.status, result.text)
	}
	tenant.checkTenants(tenant.guid)
}

// addSignedDomain adds a domain, publishes its records, verifies it and enables DKIM.
func (tenant accountTenant) addSignedDomain() string {
	tenant.t.Helper()
	tenant.expectExplained("POST", tenant.path("/domains"), object{"domain": "ours.mail.example"}, http.StatusBadRequest, "builtin_domain_not_allowed")
	zone := tenant.newZone()
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.expectExplained("POST", tenant.domainPath(zone, "/verify"), nil, http.StatusBadRequest, "verification_failed")
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	tenant.expectExplained("POST", tenant.domainPath(zone, "/enable-dkim"), nil, http.StatusBadRequest, "dkim_not_ready")
	tenant.publishRecords(zone)
	tenant.eventually("the selectors are seen", func() bool {
		return tenant.get(tenant.domainPath(zone, "/dkim-status")).valueAt("ready_to_enable") == true
	})
	checkValues(tenant.t, tenant.post(tenant.domainPath(zone, "/enable-dkim"), nil).object, object{"dkim_status": "enabled"})
	tenant.mustSync()
	checkValues(tenant.t, tenant.get(tenant.domainPath(zone, "/dns")).object, object{
		"is_verified": true, "dns_status.dkim": "healthy", "dns_status.spf": "v=spf1 include:spf.mail.example -all",
		"dns_status.mx": strings.ReplaceAll(zone, ".", "-") + ".mx.mail.example.",
	})
	return zone
}

// expectExplained is like expect for a refusal. It also checks that the documentation page of the
// error code exists.
func (tenant accountTenant) expectExplained(method, path string, body any, status int, code string) {
	tenant.t.Helper()
	refusal := tenant.expect(method, path, body, status, code)
	explained := tenant.do("GET", tenant.ready.APIURL+refusal.text("type"), "", nil)
	if explained.status != http.StatusOK || !strings.Contains(string(explained.raw), code) {
		tenant.t.Errorf("the page %s is answered %d, want 200 and the error code %s", refusal.text("type"), explained.status, code)
	}
}

// limitMailboxes provisions two mailboxes. It sets a limit and checks that the platform blocks only
// the mailbox that exceeds the limit. Without the limit, no mailbox is blocked.
func (tenant accountTenant) limitMailboxes(zone string) {
	tenant.t.Helper()
	tenant.expectExplained("POST", tenant.path("/mailboxes"), object{"domain": zone, "account_password": "short", "mailboxes": []object{{"name": "Ada", "email": "ada@" + zone}}},
		http.StatusBadRequest, "weak_password")
	checkValues(tenant.t, tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada", "max")).object, object{"created_count": 2})
	tenant.mustSync()
	if list := tenant.get(tenant.path("/mailboxes")); list.valueAt("count") != 2.0 {
		tenant.t.Fatalf("the tenant has the mailboxes %s, want 2", list.raw)
	}
	enforceAndListBlocked := func() string {
		tenant.t.Helper()
		tenant.runEnforcement("done")
		var addresses []string
		for _, rule := range tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("rules") {
			for _, address := range rule["blocks"].([]any) {
				addresses = append(addresses, address.(string))
			}
		}
		return strings.Join(addresses, " ")
	}
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 1, "domain_scope": zone})
	tenant.control("POST", "/messages", object{"mailbox": "ada@" + zone, "count": 2})
	if got := enforceAndListBlocked(); got != "ada@"+zone {
		tenant.t.Errorf("the platform blocks %q, want only ada", got)
	}
	tenant.expect("DELETE", tenant.path("/mailbox-limits?domain_scope="+zone), nil, http.StatusOK, "")
	if got := enforceAndListBlocked(); got != "" {
		tenant.t.Errorf("without a limit the platform blocks %q, want no mailbox", got)
	}
}

func (tenant accountTenant) removeEverything(zone string) {
	tenant.t.Helper()
	tenant.expectExplained("DELETE", tenant.domainPath(zone, "?from_platform=true"), nil, http.StatusConflict, "domain_in_use")
	for _, m := range tenant.get(tenant.path("/mailboxes")).objects("mailboxes") {
		tenant.expect("DELETE", tenant.path("/mailboxes/"+m.text("id")+"?confirm="+m.text("primary_smtp")), nil, http.StatusOK, "")
	}
	tenant.expect("DELETE", tenant.domainPath(zone, "?from_platform=true"), nil, http.StatusOK, "")
	tenant.mustSync()
	for _, list := range []string{"/mailboxes", "/domains"} {
		if got := tenant.get(tenant.path(list)); got.valueAt("count") != 0.0 {
			tenant.t.Errorf("GET %s after the removals: %s, want an empty list", list, got.raw)
		}
	}
	tenant.control("POST", "/tenants/"+tenant.guid+"/revoke", object{"what": "consent"})
	tenant.expectExplained("POST", tenant.path("/sync"), nil, http.StatusForbidden, "access_denied")
	tenant.expect("DELETE", tenant.path(""), nil, http.StatusOK, "")
	tenant.checkTenants()
}

// TestDemoRunsOnADifferentMailPlatform checks that the demo, with its automatic DNS, needs nothing
// of the bundled mail platform. Only the published path for the sign-in of mailboxes may name
// Microsoft.
func TestDemoRunsOnADifferentMailPlatform(t *testing.T) {
	t.Parallel()
	requirePrograms(t, releaseBuild)
	env := []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir(), "TENANTRY_MAIL_PLATFORM=example"}
	args := []string{"plugin", "add"}
	for _, program := range []string{"testdata/go-mail", "release/plugins/dns-cloudflare", "release/plugins/sending-instantly"} {
		args = append(args, testserver.Program(t, program))
	}
	if got := runTenantry(t, env, args...); got.code != 0 {
		t.Fatalf("plugin add fails: %s", got.stderr)
	}
	got := runTenantry(t, env, "demo")
	if got.code != 0 || !strings.Contains(got.stdout, "Connect a tenant of Example") || !strings.Contains(got.stdout, "\nDone in ") {
		t.Fatalf("the demo ends with the exit code %d, want 0 and all its steps: %s\n%s", got.code, got.stderr, got.stdout)
	}
	if name := microsoftNames.FindString(strings.ReplaceAll(got.stdout, "/oauth/microsoft/", "")); name != "" {
		t.Errorf("the demo names %s:\n%s", name, got.stdout)
	}
}
