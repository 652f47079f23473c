// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/url"
)

// sendingSteps are the steps of an errand that connects its mailbox to a sending
// platform and takes it out again.
func sendingSteps() []step {
	id, link, session := "", "", ""
	at := func(method, rest string) func(*errand) request {
		return func(*errand) request { return request{method: method, path: "/v1/integrations/" + id + rest} }
	}
	of := func(method, rest string) func(*errand) request {
		return func(e *errand) request { return at(method, "/mailboxes/"+e.mailbox+rest)(e) }
	}
	connections := func(e *errand, want object) {
		got := e.insist(request{method: "GET", path: "/v1/integrations/" + id})
		counts := object(got.at("mailbox_connections").(map[string]any))
		for name, n := range want {
			e.expect(name+" connections", counts[name], n)
		}
	}
	return []step{
		{name: "integrate", ask: func(e *errand) request {
			return request{method: "POST", path: "/v1/integrations", body: e.credentialAt("instantly")}
		}, after: func(e *errand, got reply) {
			id = got.text("id")
			e.expect("integrations", e.insist(request{method: "GET", path: "/v1/integrations"}).text("count"), 1)
		}},
		{name: "test", ask: at("POST", "/test"), after: func(e *errand, got reply) { e.expect("test", got.text("status"), "connected") }},
		{name: "sign in", ask: func(e *errand) request {
			r := of("POST", "/oauth/microsoft/init")(e)
			r.busy = "oauth_session_pending" // the one of a service that died, for some seconds
			return r
		}, after: func(e *errand, got reply) {
			link, session = got.text("auth_url"), got.text("session_id")
			v := newVisitor(e.t)
			v.submit(v.open(link), url.Values{"username": {got.text("mailbox")}, "decision": {"accept"}})
			look := of("GET", "/oauth/microsoft/status?session_id="+session)(e)
			e.eventually("the session is connected", func() bool { return e.insist(look).text("status") == "connected" })
			connections(e, object{"total": 1, "connected": 1})
		}},
		{name: "refresh", ask: at("POST", "/mailboxes/refresh"), after: func(e *errand, got reply) {
			e.expect("refreshed", got.text("checked")+" "+got.text("connected"), "3 1")
		}},
		{name: "disconnect", ask: of("DELETE", ""), after: func(e *errand, got reply) {
			e.expect("disconnect", got.text("status"), "disconnected")
			connections(e, object{"total": 1, "disconnected": 1})
		}},
		{name: "forget", ask: at("DELETE", ""), after: func(e *errand, got reply) {
			e.expect("forgotten", got.text("status"), "deleted")
			e.expect("integrations left", e.insist(request{method: "GET", path: "/v1/integrations"}).text("count"), 0)
		}},
	}
}
