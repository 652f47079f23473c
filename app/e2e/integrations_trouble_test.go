// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// operation is a request that asks a platform, and what it asks last.
type asking struct {
	method, path, operation string
}

// nameAt is what the platform's simulator calls an operation in its faults.
func nameAt(provider, operation string) string {
	if own := map[string]string{
		"smartlead check": "listAccounts", "smartlead account": "listAccounts", "smartlead accounts": "listAccounts", "smartlead remove": "deleteAccount",
		"emailbison check": "user", "emailbison account": "listSenders", "emailbison accounts": "listSenders", "emailbison remove": "deleteSender",
	}[provider+" "+operation]; own != "" {
		return own
	}
	return operation
}

// askings are those that change nothing that the next ones need.
func (i integrated) askings() []asking {
	all := []asking{{"POST", i.path("/test"), "check"}, {"POST", i.path("/mailboxes/refresh"), "accounts"}}
	if i.can["microsoft_oauth"] == true {
		all = append(all, asking{"POST", i.mailbox(0, "/oauth/microsoft/init"), "start_sign_in"})
	}
	return all
}

// TestPlatformsInTrouble: whatever a platform does wrong has its own answer, is
// not remembered, and leaves nothing behind: the same request again is well.
func TestPlatformsInTrouble(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, binary(t, release), t.TempDir(), []string{"TENANTRY_CIRCUIT_OPEN=100ms"})
	eachPlatform(t, "mailbox_refresh", func(t *testing.T, name string) {
		t.Parallel()
		i := ownerAt(t, ready).connectable("ada").integrates(name)
		for _, a := range i.askings() {
			i.endures(a)
		}
	})
}

// endures takes one request through all kinds of trouble.
func (i integrated) endures(a asking) {
	i.t.Helper()
	for _, trouble := range []struct {
		fault  object
		status int
		code   string
	}{
		{object{"kind": "status", "status": 429, "retry_after": 7}, 503, "provider_unavailable"},
		{object{"kind": "status", "status": 500}, 502, "provider_error"},
		{object{"kind": "status", "status": 503}, 503, "provider_unavailable"},
		{object{"kind": "drop_before", "times": 4}, 503, "provider_unavailable"}, // net/http repeats a call on each idle connection that it loses
	} {
		if i.provider == "salesblink" && trouble.fault["retry_after"] != nil {
			continue // which wants a minute of silence after that
		}
		fault := object{"provider": i.provider, "operation": nameAt(i.provider, a.operation), "times": 1}
		for name, value := range trouble.fault {
			fault[name] = value
		}
		status, code := trouble.status, trouble.code
		if a.operation == "start_sign_in" && (fault["kind"] == "drop_before" || fault["status"] == 500) {
			status, code = 504, "provider_timeout" // a link may have been made
		}
		i.control("POST", "/faults", fault)
		once := rand.Text()
		got, err := i.tryAs(once, a.method, i.ready.APIURL+a.path, i.key, nil)
		for n := 0; err == nil && got.status == 503 && status != 503 && n < 5; n++ { // our own budget, before the fault
			<-time.After(time.Second)
			got, err = i.tryAs(once, a.method, i.ready.APIURL+a.path, i.key, nil)
		}
		if err != nil || got.status != status && got.status != trouble.status || got.code() != code && got.code() != trouble.code {
			i.t.Errorf("%s %s with %v: %v, %d %s", a.method, a.path, trouble.fault, err, got.status, got.raw)
			continue
		}
		wait, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if fault["retry_after"] != nil && (wait < 1 || wait > 7) {
			i.t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
		}
		i.again(once, a)
		if i.provider != "salesblink" { // which may be asked 30 times a minute
			i.post(i.path("/test"), nil) // as more trouble than luck opens the circuit
			i.post(i.path("/test"), nil)
		}
	}
}

// again sends the request once more until the platform's word to wait is over,
// and ends what it began.
func (i integrated) again(once string, a asking) {
	i.t.Helper()
	var got reply
	i.eventually(a.operation+" is well again", func() bool {
		var err error
		got, err = i.tryAs(once, a.method, i.ready.APIURL+a.path, i.key, nil)
		return err == nil && got.status == http.StatusOK
	})
	if got.header.Get("Idempotency-Replayed") != "" {
		i.t.Errorf("%s was replayed: %s", a.path, got.raw)
	}
	if a.operation == "start_sign_in" {
		i.stands(0, "pending")
		i.expect("DELETE", i.mailbox(0, ""), nil, 200, "")
		i.stands(0, "disconnected")
	}
}

// TestDisconnectsWithoutAnswer: until it is known how one ended the mailbox is
// held; a refresh decides, either way.
func TestDisconnectsWithoutAnswer(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, binary(t, release), t.TempDir(), []string{"TENANTRY_CIRCUIT_OPEN=100ms"})
	eachPlatform(t, "mailbox_disconnect", func(t *testing.T, name string) {
		i := ownerAt(t, ready).connectable("ada", "max", "lise").integrates(name)
		i.byHand("PUT", 0, object{})
		i.byHand("PUT", 1, object{})
		i.refreshes(object{"checked": 3, "connected": 2, "newly_connected": 2, "unchanged": 1})
		elsewhere := i.integrates("instantly")
		for n, lost := range []string{"drop_after", "drop_before"} {
			i.control("POST", "/faults", object{"provider": i.provider, "operation": nameAt(i.provider, "remove"), "kind": lost, "times": 20})
			if lost == "drop_after" { // else a look shows the account still there
				i.control("POST", "/faults", object{"provider": i.provider, "operation": nameAt(i.provider, "account"), "kind": "status", "status": 500, "times": 20, "skip": 1})
			}
			got := i.expect("DELETE", i.mailbox(n, ""), nil, 504, "provider_timeout")
			if i.t.Failed() {
				t.Fatal(lost, string(got.raw))
			}
			i.stands(n, "disconnecting")
			sees(t, i.get(i.path("")).object, object{"mailbox_connections.other": 1})
			elsewhere.expect("POST", elsewhere.mailbox(n, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")
			i.control("DELETE", "/faults", nil)
			i.eventually("a refresh decides", func() bool {
				return i.do("POST", i.ready.APIURL+i.path("/mailboxes/refresh"), i.key, nil).status == http.StatusOK
			})
			i.stands(n, map[string]string{"drop_after": "disconnected", "drop_before": "connected"}[lost])
		}
		i.expect("DELETE", i.mailbox(1, ""), nil, 200, "")
		i.stands(1, "disconnected")
	})
}

// TestIncompleteListsDisconnectNobody: a list that breaks off in the middle
// leaves all as it was.
func TestIncompleteListsDisconnectNobody(t *testing.T) {
	t.Parallel()
	c := startSending(t)
	i := c.connectable("ada").integrates("instantly")
	i.signs(0)
	crowd := []object{}
	for n := range 250 {
		crowd = append(crowd, object{"email": fmt.Sprintf("crowd-%03d@elsewhere.test", n)})
	}
	i.control("POST", "/sending/instantly/accounts", crowd)
	i.byHand("DELETE", 0, nil)
	c.control("POST", "/faults", object{"provider": "instantly", "operation": "accounts", "kind": "status", "status": 500, "times": 1, "skip": 1})
	got := i.post(i.path("/mailboxes/refresh"), nil)
	sees(t, got.object, object{"status": "partial", "checked": 1, "error_count": 1, "newly_connected": 0})
	i.stands(0, "connected")
	sees(t, i.get(i.path("")).object, object{"has_error": true})
	i.refreshes(object{"checked": 1, "connected": 0, "unchanged": 0})
	i.stands(0, "disconnected")
	sees(t, i.get(i.path("")).object, object{"has_error": false})
}

// TestPlatformsTooSlow checks that a request to a platform which does not answer
// ends with 504, and that the death of a plugin ends only its own call.
func TestPlatformsTooSlow(t *testing.T) {
	t.Parallel()
	c := startSending(t)
	i := c.connectable("ada").integrates("instantly")
	c.control("POST", "/faults", object{"provider": "instantly", "operation": "check", "kind": "delay", "delay_ms": 2 * hang.Milliseconds(), "times": 1})
	i.expect("POST", i.path("/test"), nil, 504, "provider_timeout")
	i.eventually("the call that got no answer is in the journal", func() bool { return times(i.askedAt("instantly"), "check") > 0 })
	for _, a := range i.askings() {
		c.control("DELETE", "/calls", nil)
		c.control("POST", "/faults", object{"provider": "instantly", "operation": a.operation, "kind": "delay_after", "delay_ms": 1500, "times": 1})
		once, answered := rand.Text(), make(chan reply, 1)
		go func() {
			got, _ := i.tryAs(once, a.method, i.ready.APIURL+a.path, i.key, nil)
			answered <- got
		}()
		i.eventually("the platform is asked", func() bool { return times(i.askedAt("instantly"), a.operation) > 0 })
		c.control("POST", "/plugins/instantly/kill", nil)
		if got := <-answered; got.status != http.StatusOK && got.status < 500 {
			t.Errorf("%s: %d %s", a.path, got.status, got.raw)
		}
		i.again(once, a)
	}
}

// TestOneMailboxManyLinks sends 50 requests at once, half of them for each of two
// integrations. One of them gets a link, and one platform is asked for one link.
func TestOneMailboxManyLinks(t *testing.T) {
	t.Parallel()
	for name, start := range connecting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			one := c.connectable("ada").integrates("instantly")
			two := one.integrates("salesblink")
			c.control("DELETE", "/calls", nil)
			answers, gate := make(chan reply, 50), make(chan struct{})
			for n := range cap(answers) {
				i := []integrated{one, two}[n%2]
				go func() {
					<-gate
					got, _ := i.patient(rand.Text(), "POST", i.mailbox(0, "/oauth/microsoft/init"), i.key, nil)
					answers <- got
				}()
			}
			close(gate)
			links := 0
			for range cap(answers) {
				switch got := <-answers; {
				case got.status == http.StatusOK:
					links++
				case got.status != http.StatusConflict || got.code() != "mailbox_already_connected_elsewhere" && got.code() != "oauth_session_pending":
					t.Errorf("%d %s", got.status, got.raw)
				}
			}
			started := times(c.askedAt("instantly"), "start_sign_in") + times(c.askedAt("salesblink"), "start_sign_in")
			if links != 1 || started != 1 {
				t.Errorf("%d links, asked for %d times", links, started)
			}
		})
	}
}
