// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sendingPlatforms are the names of the sending platforms that the sandbox simulates.
var sendingPlatforms = []string{"emailbison", "instantly", "plusvibe", "salesblink", "smartlead"}

// mailboxTenant is a tenant with mailboxes that the service provisioned.
type mailboxTenant struct {
	accountTenant
	mailboxes []object // as the API lists them
}

// newMailboxTenant creates a tenant in a new account, with mailboxes in one domain. A domain has at
// most three mailboxes, so there must be at most three localParts.
func (c caller) newMailboxTenant(localParts ...string) mailboxTenant {
	c.t.Helper()
	tenant := c.newAccount(nil).newConnectedTenant(nil)
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(tenant.newVerifiedDomain(), localParts...))
	mailboxes := tenant.get(tenant.path("/mailboxes")).objects("mailboxes")
	if len(mailboxes) != len(localParts) {
		c.t.Fatalf("%d mailboxes were created, want %d", len(mailboxes), len(localParts))
	}
	return mailboxTenant{tenant, mailboxes}
}

// expect is like caller.expect, but repeats a request while the answer is 503, unless 503 is
// expected. A platform can refuse a call for a while, because the tests of a sandbox share the
// request limits of the same customer.
func (c mailboxTenant) expect(method, path string, body any, status int, code string) reply {
	c.t.Helper()
	for deadline := time.Now().Add(waitTimeout); status != http.StatusServiceUnavailable && time.Now().Before(deadline); {
		got := c.call(method, path, body)
		if got.status != http.StatusServiceUnavailable {
			c.checkReply(got, method, path, body, status, code)
			return got
		}
		wait, _ := strconv.Atoi(got.header.Get("Retry-After"))
		<-time.After(time.Duration(max(wait, 1)) * time.Second)
	}
	return c.caller.expect(method, path, body, status, code)
}

func (c mailboxTenant) get(path string) reply {
	c.t.Helper()
	return c.expect("GET", path, nil, 200, "")
}

func (c mailboxTenant) post(path string, body any) reply {
	c.t.Helper()
	return c.expect("POST", path, body, 200, "")
}

// testIntegration is an integration and the tenant with the mailboxes to connect.
type testIntegration struct {
	mailboxTenant
	id, provider string
	capabilities object
}

// integrationBody returns the request body that adds an integration with the credentials that the
// sandbox's customer has at the provider.
func (c client) integrationBody(provider string) object {
	c.t.Helper()
	customer, _ := c.ready.Sending[provider].(map[string]any)
	if customer == nil {
		c.t.Fatalf("the sandbox has no customer at %s: %v", provider, c.ready.Sending)
	}
	body := object{"provider": provider, "name": "Outbound " + provider, "api_key": customer["api_key"]}
	if workspaces := object(customer).objects("workspaces"); len(workspaces) > 0 {
		body["workspace_id"] = workspaces[0]["id"]
	}
	return body
}

func (c mailboxTenant) addIntegration(provider string) testIntegration {
	c.t.Helper()
	created := c.post("/v1/integrations", c.integrationBody(provider))
	capabilities, _ := created.valueAt("capabilities").(map[string]any)
	return testIntegration{c, created.text("id"), provider, capabilities}
}

func (i testIntegration) path(rest string) string { return "/v1/integrations/" + i.id + rest }

// mailboxPath returns the path of a mailbox of the integration. In all methods of testIntegration,
// index is an index in i.mailboxes.
func (i testIntegration) mailboxPath(index int, rest string) string {
	return i.path("/mailboxes/" + i.mailboxes[index].text("id") + rest)
}

func (i testIntegration) address(index int) string { return i.mailboxes[index].text("primary_smtp") }

// signInSession is an OAuth session that connects a mailbox to a sending platform.
type signInSession struct {
	testIntegration
	index  int // the index of the mailbox in mailboxes
	id     string
	link   string // the sign-in link
	answer reply  // the response that began the session
}

func (i testIntegration) beginSession(index int) signInSession {
	i.t.Helper()
	got := i.post(i.mailboxPath(index, "/oauth/microsoft/init"), nil)
	return signInSession{i, index, got.text("session_id"), got.text("auth_url"), got}
}

// signIn opens the sign-in link, signs in as username and answers with a decision, for example
// "accept".
func (s signInSession) signIn(username, decision string) {
	s.t.Helper()
	b := newBrowser(s.t)
	b.submit(b.open(s.link), url.Values{"username": {username}, "decision": {decision}})
}

func (s signInSession) statusPath() string {
	return s.mailboxPath(s.index, "/oauth/microsoft/status?session_id="+s.id)
}

// waitForStatus waits until the session has this status. The service asks the platform at most once
// in 3 seconds.
func (s signInSession) waitForStatus(status string) reply {
	s.t.Helper()
	var got reply
	s.eventually("the session is "+status, func() bool {
		got = s.get(s.statusPath())
		if now := got.text("status"); now != status && now != "pending" {
			s.t.Fatalf("the session is %s, not %s: %s", now, status, got.raw)
		}
		return got.text("status") == status
	})
	return got
}

// connectMailbox signs a mailbox in and waits until it is connected.
func (i testIntegration) connectMailbox(index int) {
	i.t.Helper()
	s := i.beginSession(index)
	s.signIn(i.address(index), "accept")
	s.waitForStatus("connected")
}

// checkConnection checks the status of a mailbox's connection in the list of mailboxes, and returns
// the connection. With the status "" there must be no connection.
func (i testIntegration) checkConnection(index int, status string) object {
	i.t.Helper()
	for _, mailbox := range i.get(i.path("/mailboxes")).objects("mailboxes") {
		if mailbox.text("mailbox_id") != i.mailboxes[index].text("id") {
			continue
		}
		connection, _ := mailbox["connection"].(map[string]any)
		if (connection == nil) != (status == "") || connection != nil && connection["status"] != status {
			i.t.Errorf("%s: mailbox %d has the connection %v, want the status %q", i.provider, index, connection, status)
		}
		return connection
	}
	i.t.Errorf("%s: mailbox %d is not in the list of mailboxes", i.provider, index)
	return nil
}

// refresh refreshes the integration and checks the counts of the response.
func (i testIntegration) refresh(want object) reply {
	i.t.Helper()
	got := i.post(i.path("/mailboxes/refresh"), nil)
	want["status"] = "completed"
	checkValues(i.t, got.object, want)
	return got
}

// editPlatformAccount changes the mailbox's account at the platform through the control interface.
func (i testIntegration) editPlatformAccount(method string, index int, body any) {
	i.t.Helper()
	i.control(method, "/sending/"+i.provider+"/accounts/"+url.PathEscape(i.address(index)), body)
}

// countCalls counts the platform calls whose path contains a mailbox's address, and all DELETE
// calls. It ignores other calls, which tests that run at the same time can cause.
func (i testIntegration) countCalls(index int) (times int) {
	i.t.Helper()
	for _, call := range i.journal(i.provider) {
		if call["method"] == "DELETE" || strings.Contains(call.text("path"), i.address(index)) {
			times++
		}
	}
	return times
}

// journal returns the calls that the simulator of a provider recorded, in order.
func (c client) journal(provider string) (calls []object) {
	c.t.Helper()
	must(c.t, json.Unmarshal(c.control("GET", "/calls?provider="+provider, nil).raw, &calls))
	return calls
}

// operationsAt returns the operations that were called at a provider, in order, without the
// sign-ins of people.
func (c client) operationsAt(provider string) (operations []string) {
	c.t.Helper()
	for _, call := range c.journal(provider) {
		if call.text("operation") != "authorize" {
			operations = append(operations, call.text("operation"))
		}
	}
	return operations
}

func countOf(operations []string, counted string) (n int) {
	for _, operation := range operations {
		if operation == counted {
			n++
		}
	}
	return n
}

// expectedCapabilities are the capabilities of integrations with the sandbox's credentials.
var expectedCapabilities = map[string]map[string]bool{
	"emailbison": {"mailbox_refresh": true, "mailbox_disconnect": true},
	"instantly":  {"microsoft_oauth": true, "mailbox_refresh": true, "mailbox_disconnect": true},
	"plusvibe":   {"microsoft_oauth": true, "mailbox_refresh": true, "mailbox_disconnect": true},
	"salesblink": {"microsoft_oauth": true, "mailbox_refresh": true},
	"smartlead":  {"mailbox_refresh": true, "mailbox_disconnect": true},
}

// postponeBackgroundRefresh refreshes an integration. The service refreshes a new integration
// within 5 minutes, and then every 6 hours. Without this method, the background refresh could find
// a change or meet a fault before the request of the test does.
func (i testIntegration) postponeBackgroundRefresh() {
	i.t.Helper()
	i.post(i.path("/mailboxes/refresh"), nil)
}

// forEachPlatform runs a subtest for each platform with a capability.
func forEachPlatform(t *testing.T, capability string, subtest func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range sendingPlatforms {
		if expectedCapabilities[name][capability] {
			t.Run(name, func(t *testing.T) { subtest(t, name) })
		}
	}
}

// newSendingSandbox starts a sandbox for one test, with all plugins and with customers at all
// sending platforms.
func newSendingSandbox(t *testing.T, args ...string) caller {
	t.Helper()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{allPlugins}, args...)
	return seededAccount(t, ready)
}

func (i testIntegration) hasAccount(index int) bool {
	i.t.Helper()
	return slices.Contains(i.accountAddresses(), i.address(index))
}

func (i testIntegration) accountAddresses() (addresses []string) {
	i.t.Helper()
	var accounts []object
	must(i.t, json.Unmarshal(i.control("GET", "/sending/"+i.provider+"/accounts", nil).raw, &accounts))
	for _, a := range accounts {
		for _, member := range []string{"email", "from_email", "address"} {
			if a.text(member) != "" {
				addresses = append(addresses, a.text(member))
				break
			}
		}
	}
	return addresses
}

// addIntegration adds an integration and begins an OAuth session for the account's mailbox. It adds
// the ids of both to ids.
func (r accountResources) addIntegration() {
	r.t.Helper()
	created := r.post("/v1/integrations", r.integrationBody("instantly"))
	r.ids["integration_id"] = created.text("id")
	started := r.post("/v1/integrations/"+created.text("id")+"/mailboxes/"+r.ids["mailbox_id"]+"/oauth/microsoft/init", nil)
	r.ids["session_id"] = started.text("session_id")
}
