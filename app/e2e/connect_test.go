// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// TestAdministratorConnectsATenant connects a tenant through the pages of the connect flow, and
// checks their text and security headers.
func TestAdministratorConnectsATenant(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	tenant, browser := c.newTenant(object{"name": "By Hand Ltd"}), newBrowser(t)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	callback := browser.open(browser.answerConsent(link, tenant.admin, "accept"))
	if callback.status != http.StatusSeeOther {
		t.Fatalf("the callback answers %d, want a redirect to the sign-in: %s", callback.status, callback.text)
	}
	checkPageHeaders(t, callback)
	checkFlowCookie(t, callback)
	if to, err := url.Parse(callback.location); err != nil || to.Query().Get("code_challenge_method") != "S256" ||
		to.Query().Get("nonce") == "" || !strings.Contains(to.Path, tenant.guid) {
		t.Errorf("the callback redirects to %s, want a sign-in at the tenant with S256 and a nonce", callback.location)
	}
	confirmation := browser.open(browser.signIn(callback.location, tenant.admin).location)
	checkPageHeaders(t, confirmation)
	for _, words := range []string{"By Hand Ltd", tenant.guid, ".onmicrosoft.com", c.email, tenant.admin, "Connect", "Cancel"} {
		if !strings.Contains(confirmation.text, words) {
			t.Errorf("the page does not say %q: %s", words, confirmation.text)
		}
	}
	c.checkTenants() // before the confirmation no tenant is connected
	result := browser.submit(confirmation, url.Values{"decision": {"connect"}})
	checkPageHeaders(t, result)
	if result.status != http.StatusOK || !strings.Contains(result.heading, "connected") || !strings.Contains(result.text, "Its name is tenantry") {
		t.Errorf("the confirmation is answered %d %s, want 200 and the page of a connected tenant", result.status, result.text)
	}
	c.checkTenants(tenant.guid)
	if again := browser.submit(confirmation, url.Values{"decision": {"connect"}}); again.status != http.StatusBadRequest {
		t.Errorf("a second confirmation is answered %d, want 400", again.status)
	}
	tenant.mustSync()
}

func checkPageHeaders(t *testing.T, p page) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := p.header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s has the header %s: %q, want %q in it", p.url.Path, name, got, want)
		}
	}
	policy := p.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || p.header.Get("X-Request-ID") == "" {
		t.Errorf("%s has the policy %q and the request id %q, want a strict policy and an id", p.url.Path, policy, p.header.Get("X-Request-ID"))
	}
}

// checkFlowCookie checks the cookie that binds the connect flow to the browser.
func checkFlowCookie(t *testing.T, p page) {
	t.Helper()
	cookies := (&http.Response{Header: p.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the callback sets %d cookies, want 1", len(cookies))
	}
	cookie := cookies[0]
	// The sandbox has no TLS. The attribute Secure and the name prefix __Host- would require TLS. A
	// flow lasts 15 minutes, which are 900 seconds.
	if cookie.Name != "tenantry-connect" || !cookie.HttpOnly || cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" ||
		cookie.MaxAge < 1 || cookie.MaxAge > 900 || len(cookie.Value) < 40 {
		t.Errorf("the cookie of the flow has a wrong name, value or attribute: %v", cookie)
	}
}

// TestReconnectRenewsTheConsent checks that a new consent for a tenant of the same account updates
// the tenant and needs no further slot.
func TestReconnectRenewsTheConsent(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"tenant_slots": 2})
	tenant := c.newConnectedTenant(nil)
	zone, before := tenant.newVerifiedDomain(), tenant.get(tenant.path(""))
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	lastSlotTenant := c.newTenant(nil)
	domain, mailbox := tenant.get(tenant.path("/domains")).objects("domains")[0], tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0]

	// The last slot is taken while the confirmation page is open.
	browser := newBrowser(t)
	confirmation := browser.openConfirmation(tenant)
	lastSlotTenant.connect()
	if result := browser.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
		t.Errorf("the confirmation is answered %d %s, want 200", result.status, result.text)
	}
	after := tenant.get(tenant.path(""))
	checkValues(t, after.object, object{"id": before.valueAt("id"), "connected_by": tenant.admin, "domain_count": 1, "mailbox_count": 1, "exchange_bootstrap_status": "ready"})
	if after.text("consented_at") <= before.text("consented_at") {
		t.Errorf("consented_at is %v, want a time after %v", after.valueAt("consented_at"), before.valueAt("consented_at"))
	}
	checkValues(t, tenant.get(tenant.path("/domains")).objects("domains")[0], object{"id": domain["id"], "domain_name": zone})
	checkValues(t, tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0], object{"id": mailbox["id"]})
	if list := c.get("/v1/tenants"); list.valueAt("count") != 2.0 {
		t.Errorf("the account has the tenants %s, want 2", list.raw)
	}
}

func TestConnectRefusesATenantOfADifferentAccount(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	owner, stranger := c.newAccount(nil), c.newAccount(nil)
	tenant := owner.newTenant(nil).connect()
	browser := newBrowser(t)
	confirmation := browser.openConfirmation(accountTenant{stranger, tenant.guid, tenant.admin})
	result := browser.submit(confirmation, url.Values{"decision": {"connect"}})
	checkPageHeaders(t, result)
	if result.status != http.StatusConflict || strings.Contains(result.text, owner.email) || strings.Contains(result.text, owner.id) {
		t.Errorf("the confirmation is answered %d %s, want 409 without the account of the owner", result.status, result.text)
	}
	stranger.checkTenants()
	owner.checkTenants(tenant.guid)
	tenant.expect("DELETE", tenant.path(""), nil, 200, "")
	accountTenant{stranger, tenant.guid, tenant.admin}.connect() // the owner has released the tenant
}

// TestConnectRefusesWhenTheLastSlotIsTaken fills the last slot while the confirmation page is open.
func TestConnectRefusesWhenTheLastSlotIsTaken(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"tenant_slots": 1})
	tenant, lastSlotTenant, browser := c.newTenant(nil), c.newTenant(nil), newBrowser(t)
	confirmation := browser.openConfirmation(tenant)
	lastSlotTenant.connect()
	result := browser.submit(confirmation, url.Values{"decision": {"connect"}})
	checkPageHeaders(t, result)
	if result.status != http.StatusPaymentRequired {
		t.Errorf("the confirmation is answered %d %s, want 402", result.status, result.text)
	}
	c.checkTenants(lastSlotTenant.guid)
}

func TestConnectRefusesWhenThePlanLapsed(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	tenant, browser := c.newTenant(nil), newBrowser(t)
	confirmation := browser.openConfirmation(tenant)
	c.setPlan(object{"plan": "complete", "active": false})
	if result := browser.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusPaymentRequired {
		t.Errorf("the confirmation is answered %d %s, want 402", result.status, result.text)
	}
	c.setPlan(object{"plan": "complete", "active": true})
	c.checkTenants()
}

// TestConnectFlowRefusesInvalidSteps checks the status of the page that answers an invalid,
// declined or cancelled step of the connect flow. None of these steps connects a tenant.
func TestConnectFlowRefusesInvalidSteps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		walk       func(b *browser, tenant accountTenant, link string) page
		wantStatus int
	}{
		{"declined at the consent", func(b *browser, tenant accountTenant, link string) page {
			return b.open(b.answerConsent(link, tenant.admin, "deny"))
		}, http.StatusForbidden},
		{"declined at the sign-in", func(b *browser, tenant accountTenant, link string) page {
			callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
			state := queryParameter(b.t, callback.location, "state")
			return b.open(tenant.ready.APIURL + "/connect/microsoft365/signin?error=access_denied&state=" + url.QueryEscape(state))
		}, http.StatusForbidden},
		{"a guest", func(b *browser, tenant accountTenant, link string) page {
			callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
			return b.open(b.signIn(callback.location, strings.Replace(tenant.admin, "admin@", "guest@", 1)).location)
		}, http.StatusForbidden},
		{"an ordinary member", func(b *browser, tenant accountTenant, link string) page {
			callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
			return b.open(b.signIn(callback.location, strings.Replace(tenant.admin, "admin@", "user@", 1)).location)
		}, http.StatusForbidden},
		{"a forged state", func(b *browser, tenant accountTenant, link string) page {
			return b.open(withQueryParameter(b.t, b.answerConsent(link, tenant.admin, "accept"), "state", "forged"))
		}, http.StatusBadRequest},
		{"no state", func(b *browser, tenant accountTenant, _ string) page {
			return b.open(tenant.ready.APIURL + "/connect/microsoft365/callback?admin_consent=True&tenant=" + tenant.guid)
		}, http.StatusBadRequest},
		{"two states", func(b *browser, tenant accountTenant, link string) page {
			return b.open(b.answerConsent(link, tenant.admin, "accept") + "&state=x")
		}, http.StatusBadRequest},
		{"a reused state", func(b *browser, tenant accountTenant, link string) page {
			callback := b.answerConsent(link, tenant.admin, "accept")
			b.open(callback)
			return b.open(callback)
		}, http.StatusBadRequest},
		{"an invalid tenant", func(b *browser, tenant accountTenant, link string) page {
			return b.open(withQueryParameter(b.t, b.answerConsent(link, tenant.admin, "accept"), "tenant", "x"))
		}, http.StatusBadRequest},
		{"a reused sign-in", func(b *browser, tenant accountTenant, link string) page {
			callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
			signInCallback := b.signIn(callback.location, tenant.admin).location
			b.open(signInCallback)
			return b.open(signInCallback)
		}, http.StatusBadRequest},
		{"a forged code", func(b *browser, tenant accountTenant, link string) page {
			callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
			return b.open(withQueryParameter(b.t, b.signIn(callback.location, tenant.admin).location, "code", "forged"))
		}, http.StatusBadRequest},
		{"a bad CSRF token", func(b *browser, tenant accountTenant, _ string) page {
			return b.submit(b.openConfirmation(tenant), url.Values{"decision": {"connect"}, "csrf": {"forged"}})
		}, http.StatusBadRequest},
		{"no CSRF token", func(b *browser, tenant accountTenant, _ string) page {
			return b.submit(b.openConfirmation(tenant), url.Values{"decision": {"connect"}, "csrf": nil})
		}, http.StatusBadRequest},
		{"no decision", func(b *browser, tenant accountTenant, _ string) page {
			return b.submit(b.openConfirmation(tenant), nil)
		}, http.StatusBadRequest},
		{"cancelled", func(b *browser, tenant accountTenant, _ string) page {
			return b.submit(b.openConfirmation(tenant), url.Values{"decision": {"cancel"}})
		}, http.StatusOK},
		{"confirmed after a cancellation", func(b *browser, tenant accountTenant, _ string) page {
			confirmation := b.openConfirmation(tenant)
			b.submit(confirmation, url.Values{"decision": {"cancel"}})
			return b.submit(confirmation, url.Values{"decision": {"connect"}})
		}, http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := sharedSandbox(t).newAccount(nil)
			tenant := c.newTenant(nil)
			p := tc.walk(newBrowser(t), tenant, c.get("/v1/tenants/connect-url").text("connect_url"))
			if p.status != tc.wantStatus || p.heading == "" {
				t.Errorf("the page has the status %d, want %d and a heading: %s", p.status, tc.wantStatus, p.text)
			}
			checkPageHeaders(t, p)
			c.checkTenants()
		})
	}
}

// TestConnectFlowRefusesAForgedTenant opens the callback of the attacker's own link with the tenant
// of a victim, whose administrator consented earlier (confused deputy).
func TestConnectFlowRefusesAForgedTenant(t *testing.T) {
	t.Parallel()
	victim := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	attacker := sharedSandbox(t).newAccount(nil)
	attackerTenant := attacker.newTenant(nil)
	forgedSignIn := func(b *browser) string {
		link := attacker.get("/v1/tenants/connect-url").text("connect_url")
		callback := b.open(withQueryParameter(t, b.answerConsent(link, attackerTenant.admin, "accept"), "tenant", victim.guid))
		if callback.status != http.StatusSeeOther || !strings.Contains(callback.location, victim.guid) {
			t.Fatalf("the callback does not redirect to the sign-in of the victim's tenant: %d %s", callback.status, callback.location)
		}
		return callback.location
	}
	t.Run("sign-in at the victim's tenant", func(t *testing.T) {
		b := newBrowser(t)
		if p := b.signIn(forgedSignIn(b), attackerTenant.admin); p.location != "" {
			t.Errorf("the platform redirects to %s, want no redirect", p.location)
		}
	})
	t.Run("sign-in at the attacker's own tenant", func(t *testing.T) {
		b := newBrowser(t)
		signInCallback := b.signIn(strings.ReplaceAll(forgedSignIn(b), victim.guid, attackerTenant.guid), attackerTenant.admin).location
		if p := b.open(signInCallback); p.status != http.StatusBadRequest {
			t.Errorf("the sign-in is answered %d %s, want 400", p.status, p.text)
		}
	})
	t.Run("sign-in of an ordinary member of the victim", func(t *testing.T) {
		b := newBrowser(t)
		signInCallback := b.signIn(forgedSignIn(b), strings.Replace(victim.admin, "admin@", "user@", 1)).location
		if p := b.open(signInCallback); p.status != http.StatusForbidden {
			t.Errorf("the sign-in is answered %d %s, want 403", p.status, p.text)
		}
	})
	attacker.checkTenants()
	victim.checkTenants(victim.guid)
}

// TestConnectStateBelongsToItsAccount checks that a state is bound to its account and to its
// installation.
func TestConnectStateBelongsToItsAccount(t *testing.T) {
	t.Parallel()
	account, otherInstallation := sharedSandbox(t).newAccount(nil), privateSandbox(t)
	tenant := account.newTenant(nil)
	browser := newBrowser(t)
	ownCallback := browser.answerConsent(account.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, "accept")
	otherInstallationState := queryParameter(t, otherInstallation.get("/v1/tenants/connect-url").text("connect_url"), "state")
	if p := browser.open(withQueryParameter(t, ownCallback, "state", otherInstallationState)); p.status != http.StatusBadRequest {
		t.Errorf("a state of a different installation is answered %d %s, want 400", p.status, p.text)
	}

	// With the state of a different account, the flow would connect the tenant to that account. The
	// confirmation page therefore names that account.
	otherAccount := sharedSandbox(t).newAccount(nil)
	otherAccountState := queryParameter(t, otherAccount.get("/v1/tenants/connect-url").text("connect_url"), "state")
	callback := browser.open(withQueryParameter(t, ownCallback, "state", otherAccountState))
	confirmation := browser.open(browser.signIn(callback.location, tenant.admin).location)
	if !strings.Contains(confirmation.text, otherAccount.email) || strings.Contains(confirmation.text, account.email) {
		t.Errorf("the page must name the account of the state, %s, and not the account of the link, %s: %s", otherAccount.email, account.email, confirmation.text)
	}
	account.checkTenants()
	otherAccount.checkTenants()
}

// TestConnectFlowIsBoundToItsBrowser checks that the addresses of a flow are useless in a different
// browser, and that opening them there does not end the flow.
func TestConnectFlowIsBoundToItsBrowser(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	tenant, browser, otherBrowser := c.newTenant(nil), newBrowser(t), newBrowser(t)
	callback := browser.open(browser.answerConsent(c.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, "accept"))
	signInCallback := browser.signIn(callback.location, tenant.admin).location
	if p := otherBrowser.open(signInCallback); p.status != http.StatusBadRequest {
		t.Errorf("the sign-in in a different browser is answered %d %s, want 400", p.status, p.text)
	}
	confirmation := browser.open(signInCallback)
	if p := otherBrowser.submit(confirmation, url.Values{"decision": {"connect"}}); p.status != http.StatusBadRequest {
		t.Errorf("the confirmation in a different browser is answered %d %s, want 400", p.status, p.text)
	}
	c.checkTenants()
	if p := browser.submit(confirmation, url.Values{"decision": {"connect"}}); p.status != http.StatusOK {
		t.Errorf("the confirmation in the same browser is answered %d %s, want 200", p.status, p.text)
	}
	c.checkTenants(tenant.guid)
}

// TestConnectFlowExpires checks that each step is refused after 15 minutes.
func TestConnectFlowExpires(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	for _, step := range []string{"callback", "signin", "confirm"} {
		t.Run(step, func(t *testing.T) {
			c := c.withT(t)
			tenant, browser := c.newTenant(nil), newBrowser(t)
			expire := func() { c.control("POST", "/clock", object{"advance": "15m1s"}) }
			callback := browser.answerConsent(c.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, "accept")
			var p page
			switch step {
			case "callback":
				expire()
				p = browser.open(callback)
			case "signin":
				signIn := browser.open(callback).location
				expire()
				p = browser.open(browser.signIn(signIn, tenant.admin).location)
			case "confirm":
				confirmation := browser.open(browser.signIn(browser.open(callback).location, tenant.admin).location)
				expire()
				p = browser.submit(confirmation, url.Values{"decision": {"connect"}})
			}
			if p.status != http.StatusBadRequest {
				t.Errorf("the expired step is answered %d %s, want 400", p.status, p.text)
			}
			c.checkTenants()
		})
	}
}

// TestConnectPagesRefuseWrongMethods checks that a wrong method is answered 405 with Allow, and an
// unknown page 404.
func TestConnectPagesRefuseWrongMethods(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	for path, allow := range map[string]string{"callback": "GET", "signin": "GET", "confirm": "POST"} {
		method := map[string]string{"GET": "POST", "POST": "GET"}[allow]
		r, err := http.NewRequestWithContext(t.Context(), method, c.ready.APIURL+"/connect/microsoft365/"+path, http.NoBody)
		must(t, err)
		if p := newBrowser(t).send(r); p.status != http.StatusMethodNotAllowed || p.header.Get("Allow") != allow {
			t.Errorf("%s %s is answered %d with Allow %q, want 405 with %s", method, path, p.status, p.header.Get("Allow"), allow)
		}
	}
	p := newBrowser(t).open(c.ready.APIURL + "/connect/microsoft365/nothing")
	checkPageHeaders(t, p)
	if p.status != http.StatusNotFound {
		t.Errorf("an unknown page is answered %d, want 404", p.status)
	}
}

// queryParameter returns a query parameter of an address. It ends the test if there is none.
func queryParameter(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Query().Get(name) == "" {
		t.Fatalf("the address %q has no query parameter %s: %v", address, name, err)
	}
	return u.Query().Get(name)
}

// TestPagesWorkInChromium opens the HTML pages in Chromium. It walks through the connect pages, and
// back to the caller's return_url if the walk has one. Without TENANTRY_SOAK it opens the pages
// about error codes in one of three combinations of color scheme and width, and the API page in one
// of two widths. It saves screenshots in TENANTRY_SHOTS, if that is set.
func TestPagesWorkInChromium(t *testing.T) {
	t.Parallel()
	const folder = "../../.ci/browser"
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal("the browser's packages are not installed: run make test")
	}
	if _, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium")); err != nil {
		t.Fatalf("Chromium was not found (%v): run make test", err)
	}
	c := sharedSandbox(t).newAccount(nil)
	c.control("POST", "/accounts/"+c.id+"/settings", object{"return_hosts": []string{"app.acme.example"}, "display_name": "Acme Mail"})
	const returnURL, state = "https://app.acme.example/connected", "customer 4711 & söhne"
	var walks []object
	var sessions []string
	results := []string{"connected", "connected", "declined", ""} // the last walk has no return_url
	for _, result := range results {
		tenant := c.newTenant(object{"name": "Wherever The Long Name Of A Company Ends Ltd"})
		var query string
		if result != "" {
			query = "?" + url.Values{"return_url": {returnURL + "?from=mail"}, "state": {state}}.Encode()
		}
		link := c.get("/v1/tenants/connect-url" + query)
		walk := object{"link": link.text("connect_url"), "username": tenant.admin, "back": nil}
		if result != "" {
			walk["back"] = object{"url": returnURL, "parameters": object{"from": "mail", "session_id": link.text("id"), "result": result, "state": state}}
		}
		walks, sessions = append(walks, walk), append(sessions, link.text("id"))
	}
	document, err := publishedDocument()
	must(t, err)
	task, err := json.Marshal(object{
		"api": c.ready.APIURL, "shots": os.Getenv("TENANTRY_SHOTS"), "walks": walks,
		"schemes": soak.Sample(t, []int{0, 1, 2}, 1), "viewports": soak.Sample(t, []int{0, 1}, 1),
		"codes": []string{"invalid_request", "exchange_bootstrap_not_ready", "provider_timeout"}, "operations": len(document.operations) + document.messageTypeCount,
	})
	must(t, err)
	chromium := exec.CommandContext(t.Context(), "node", "pages.mjs", string(task))
	chromium.Dir, chromium.WaitDelay = folder, 5*time.Second // processes that Chromium started can keep its output open
	if out, err := chromium.CombinedOutput(); err != nil {
		t.Errorf("the walk in Chromium failed: %v\n%s", err, out)
	}
	for i, result := range results {
		if status := c.get("/v1/connect-sessions/" + sessions[i]).text("status"); status != cmp.Or(result, "declined") {
			t.Errorf("walk %d leaves the session %s, want %s", i+1, status, cmp.Or(result, "declined"))
		}
	}
}
