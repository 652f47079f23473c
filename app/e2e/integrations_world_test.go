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

// sendingNames are the sending platforms that the sandbox simulates.
var sendingNames = []string{"emailbison", "instantly", "plusvibe", "salesblink", "smartlead"}

// connectable is a tenant with mailboxes that the service made.
type connectable struct {
	holding
	mailboxes []object // as they are listed
}

// connectable makes one; a domain holds at most three mailboxes.
func (c caller) connectable(locals ...string) connectable {
	c.t.Helper()
	h := c.newCaller(nil).connected(nil)
	h.post(h.path("/mailboxes"), boxes(h.verified(), locals...))
	return connectable{h, h.get(h.path("/mailboxes")).objects("mailboxes")}
}

// expect waits where a platform's own limit wants that: all tests share its one
// customer.
func (c connectable) expect(method, path string, body any, status int, code string) reply {
	c.t.Helper()
	for deadline := time.Now().Add(hang); status != http.StatusServiceUnavailable && time.Now().Before(deadline); {
		got := c.call(method, path, body)
		if got.status != http.StatusServiceUnavailable {
			c.same(got, method, path, status, code)
			return got
		}
		wait, _ := strconv.Atoi(got.header.Get("Retry-After"))
		<-time.After(time.Duration(max(wait, 1)) * time.Second)
	}
	return c.caller.expect(method, path, body, status, code)
}

func (c connectable) same(got reply, method, path string, status int, code string) {
	c.t.Helper()
	if got.status != status || got.code() != code {
		c.t.Errorf("%s %s: got %d %q, want %d %q\n%s", method, path, got.status, got.code(), status, code, got.raw)
	}
}

func (c connectable) get(path string) reply {
	c.t.Helper()
	return c.expect("GET", path, nil, 200, "")
}

func (c connectable) post(path string, body any) reply {
	c.t.Helper()
	return c.expect("POST", path, body, 200, "")
}

// integrated is an integration with the account's mailboxes.
type integrated struct {
	connectable
	id, provider string
	can          object
}

// credentialAt is the body that adds an integration with what the sandbox's
// customer has there.
func (c client) credentialAt(provider string) object {
	c.t.Helper()
	held, _ := c.ready.Sending[provider].(map[string]any)
	if held == nil {
		c.t.Fatalf("the sandbox has no customer at %s: %v", provider, c.ready.Sending)
	}
	body := object{"provider": provider, "name": "Outbound " + provider, "api_key": held["api_key"]}
	if workspaces := object(held).objects("workspaces"); len(workspaces) > 0 {
		body["workspace_id"] = workspaces[0]["id"]
	}
	return body
}

func (c connectable) integrates(provider string) integrated {
	c.t.Helper()
	made := c.post("/v1/integrations", c.credentialAt(provider))
	can, _ := made.at("capabilities").(map[string]any)
	return integrated{c, made.text("id"), provider, can}
}

func (i integrated) path(rest string) string { return "/v1/integrations/" + i.id + rest }

// mailbox is the path of one of the mailboxes at the integration.
func (i integrated) mailbox(n int, rest string) string {
	return i.path("/mailboxes/" + i.mailboxes[n].text("id") + rest)
}

func (i integrated) address(n int) string { return i.mailboxes[n].text("primary_smtp") }

// session is a link that was given out.
type session struct {
	integrated
	n      int // of the mailbox
	id     string
	link   string
	answer reply
}

// begins opens a session.
func (i integrated) begins(n int) session {
	i.t.Helper()
	got := i.post(i.mailbox(n, "/oauth/microsoft/init"), nil)
	return session{i, n, got.text("session_id"), got.text("auth_url"), got}
}

// signsIn is a person at the link: who signs in, and what they decide.
func (s session) signsIn(username, decision string) page {
	s.t.Helper()
	v := newVisitor(s.t)
	return v.submit(v.open(s.link), url.Values{"username": {username}, "decision": {decision}})
}

func (s session) statusPath() string {
	return s.mailbox(s.n, "/oauth/microsoft/status?session_id="+s.id)
}

// becomes waits for a status: the platform is asked every 3 seconds at most.
func (s session) becomes(status string) reply {
	s.t.Helper()
	var got reply
	s.eventually("session "+status, func() bool {
		got = s.get(s.statusPath())
		if now := got.text("status"); now != status && now != "pending" {
			s.t.Fatalf("the session is %s, not %s: %s", now, status, got.raw)
		}
		return got.text("status") == status
	})
	return got
}

// signs has a mailbox sign in as itself.
func (i integrated) signs(n int) session {
	i.t.Helper()
	s := i.begins(n)
	s.signsIn(i.address(n), "accept")
	s.becomes("connected")
	return s
}

// stands checks how a mailbox is listed; status is "" when it never had a
// connection here.
func (i integrated) stands(n int, status string) object {
	i.t.Helper()
	for _, m := range i.get(i.path("/mailboxes")).objects("mailboxes") {
		if m.text("mailbox_id") != i.mailboxes[n].text("id") {
			continue
		}
		c, _ := m["connection"].(map[string]any)
		if (c == nil) != (status == "") || c != nil && c["status"] != status {
			i.t.Errorf("%s: mailbox %d has the connection %v, want %q", i.provider, n, c, status)
		}
		return c
	}
	i.t.Errorf("mailbox %d is not listed", n)
	return nil
}

// refreshes reads the platform's list and checks what it counts.
func (i integrated) refreshes(want object) reply {
	i.t.Helper()
	got := i.post(i.path("/mailboxes/refresh"), nil)
	want["status"] = "completed"
	sees(i.t, got.object, want)
	return got
}

// byHand is what somebody does at the platform itself.
func (i integrated) byHand(method string, n int, body any) {
	i.t.Helper()
	i.control(method, "/sending/"+i.provider+"/accounts/"+url.PathEscape(i.address(n)), body)
}

// askedAbout counts what the platform was asked of a mailbox's account by its
// address, and all removals: tests beside this one ask the same platform.
func (i integrated) askedAbout(n int) (times int) {
	i.t.Helper()
	for _, call := range i.calls(i.provider) {
		if call["method"] == "DELETE" || strings.Contains(call.text("path"), i.address(n)) {
			times++
		}
	}
	return times
}

// calls are those that a platform's simulator noted, in order.
func (c client) calls(provider string) (all []object) {
	c.t.Helper()
	if err := json.Unmarshal(c.control("GET", "/calls?provider="+provider, nil).raw, &all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// askedAt are the operations that a platform was asked for, in order, without
// those of people.
func (c client) askedAt(provider string) (operations []string) {
	c.t.Helper()
	for _, call := range c.calls(provider) {
		if call.text("operation") != "authorize" {
			operations = append(operations, call.text("operation"))
		}
	}
	return operations
}

// times counts one of them.
func times(operations []string, one string) (n int) {
	for _, o := range operations {
		if o == one {
			n++
		}
	}
	return n
}

// promised is what integrations with the sandbox's credentials can do.
var promised = map[string]map[string]bool{
	"emailbison": {"mailbox_refresh": true, "mailbox_disconnect": true},
	"instantly":  {"microsoft_oauth": true, "mailbox_refresh": true, "mailbox_disconnect": true},
	"plusvibe":   {"microsoft_oauth": true, "mailbox_refresh": true, "mailbox_disconnect": true},
	"salesblink": {"microsoft_oauth": true, "mailbox_refresh": true},
	"smartlead":  {"mailbox_refresh": true, "mailbox_disconnect": true},
}

// eachPlatform runs a part of a test for each platform whose integrations can do
// something.
func eachPlatform(t *testing.T, capability string, do func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range sendingNames {
		if promised[name][capability] {
			t.Run(name, func(t *testing.T) { do(t, name) })
		}
	}
}

// startSending is a sandbox with all its customers, for one test alone.
func startSending(t *testing.T, args ...string) caller {
	t.Helper()
	_, ready := startDev(t, binary(t, release), t.TempDir(), nil, args...)
	return ownerAt(t, ready)
}

// held reports whether the platform has the mailbox's account.
func (i integrated) held(n int) bool {
	i.t.Helper()
	return slices.Contains(i.heldAddresses(), i.address(n))
}

// heldAddresses are the addresses of the accounts at the platform.
func (i integrated) heldAddresses() (all []string) {
	i.t.Helper()
	var accounts []object
	if err := json.Unmarshal(i.control("GET", "/sending/"+i.provider+"/accounts", nil).raw, &accounts); err != nil {
		i.t.Fatal(err)
	}
	for _, a := range accounts {
		for _, member := range []string{"email", "from_email"} {
			if a.text(member) != "" && a[member] != nil {
				all = append(all, a.text(member))
				break
			}
		}
	}
	return all
}

// integrates gives an estate an integration in which its mailbox has a session.
func (e estate) integrates() {
	e.t.Helper()
	made := e.post("/v1/integrations", e.credentialAt("instantly"))
	e.ids["integration_id"] = made.text("id")
	begun := e.post("/v1/integrations/"+made.text("id")+"/mailboxes/"+e.ids["mailbox_id"]+"/oauth/microsoft/init", nil)
	e.ids["session_id"] = begun.text("session_id")
}
