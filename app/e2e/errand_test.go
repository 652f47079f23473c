// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
)

// errand is the main job on one tenant, a request a step, done by a caller who
// repeats each until it succeeds.
type errand struct {
	*mortal
	tenant, domain, mailbox string
}

// step is one request of the errand. after is what follows its success.
type step struct {
	name  string
	ask   func(e *errand) request
	after func(e *errand, got reply)
}

func setOut(m *mortal) *errand {
	m.t.Helper()
	e := &errand{mortal: m, tenant: m.ready.Tenants[0].TenantID, domain: m.ready.Zones[0]}
	m.control("POST", "/tenants/"+e.tenant+"/behaviour", quick())
	return e
}

// quick has a simulated tenant finish everything at once.
func quick() object {
	return object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}
}

func (e *errand) api(rest string) string { return "/v1/tenants/" + e.tenant + rest }

func (e *errand) holding() holding {
	return holding{caller: ownerAt(e.t, e.ready), guid: e.tenant}
}

// mainJob are the steps from a tenant that nobody connected to mailboxes that
// work. Each can be sent again, whatever became of it before.
func mainJob() []step {
	fixed := func(method, rest string, body any) func(*errand) request {
		return func(e *errand) request { return request{method: method, path: e.api(rest), body: body} }
	}
	inDomain := func(rest string) func(*errand) request {
		return func(e *errand) request { return request{method: "POST", path: e.api("/domains/" + e.domain + rest)} }
	}
	publish := func(e *errand, _ reply) { e.holding().publish(e.domain) }
	return []step{
		{name: "connect", ask: func(e *errand) request {
			return request{method: "POST", path: "/tenants/" + e.tenant + "/consent", body: object{"api_key": "of the account"}, control: true}
		}},
		{name: "sync", ask: fixed("POST", "/sync", nil), after: func(e *errand, got reply) { e.expect("sync", got.text("status"), "completed") }},
		{name: "add domain", ask: func(e *errand) request {
			return request{method: "POST", path: e.api("/domains"), body: object{"domain": e.domain}}
		}, after: func(e *errand, got reply) {
			e.expect("add domain", got.text("status"), "added")
			publish(e, got)
		}},
		{name: "verify", ask: inDomain("/verify"), after: publish},
		{name: "enable-dkim", ask: inDomain("/enable-dkim")},
		{name: "provision", ask: func(e *errand) request {
			return request{method: "POST", path: e.api("/mailboxes"), body: boxes(e.domain, "ada", "max", "lise")}
		}, after: func(e *errand, got reply) {
			e.expect("created mailboxes", got.text("created_count"), 3)
			e.mailbox = e.holding().get(e.api("/mailboxes")).objects("mailboxes")[0].text("id")
		}},
		{name: "rename", ask: func(e *errand) request {
			return request{method: "PATCH", path: e.api("/mailboxes/" + e.mailbox), body: object{"display_name": "Ada Lovelace", "daily_send_limit": 7}}
		}},
	}
}

// run does the steps, each by what does one. However often a step is sent, it
// is one write with one Idempotency-Key and gets the answer of an undisturbed one.
func (e *errand) run(steps []step, do func(step, request) reply) {
	e.t.Helper()
	for _, s := range steps {
		r := s.ask(e)
		r.once = rand.Text()
		got := do(s, r)
		if s.after != nil {
			s.after(e, got)
		}
	}
}

// onlyOnce are the operations of the mail platform that must not be done again
// whatever happens: they make something, or a look tells that it is done.
var onlyOnce = map[string]int{
	"create-roleAssignments": 1, "Set-TransportConfig": 1,
	"domain.create": 1, "domain.verify": 1, "domain.update": 1,
	"New-DkimSigningConfig": 1, "Set-DkimSigningConfig": 1,
	"New-Mailbox": 3,
}

// check holds what there is, at the mail platform and in the service, against
// an errand that nothing disturbed.
func (e *errand) check() {
	e.t.Helper()
	done, unsure := e.journal()
	for operation, want := range onlyOnce {
		if done[operation] > want || done[operation]+unsure[operation] < want {
			e.t.Errorf("%s was done %d times (and perhaps %d more), want %d (after %v)", operation, done[operation], unsure[operation], want, e.hit)
		}
	}
	domains, mailboxes := e.platform(e.tenant)
	e.expect("domains at the platform", len(domains), 1)
	for _, d := range domains {
		e.expect("domain", d, object{"name": e.domain, "verified": true, "default": false, "dkim_enabled": true})
	}
	e.expect("mailboxes at the platform", len(mailboxes), 3)
	for _, m := range mailboxes {
		e.expect("mailbox", m, object{"address": m["address"], "enabled": true, "password_set": true})
	}
	h := e.holding()
	e.expect("stored domains", h.get(h.path("/domains")).text("count"), 1)
	stored := h.get(h.path("/mailboxes"))
	e.expect("stored mailboxes", stored.text("count"), 3)
	names := map[string]int{}
	for _, m := range stored.objects("mailboxes") {
		names[m.text("display_name")]++
		if m.text("id") == e.mailbox {
			e.expect("stored limit", m.text("daily_send_limit"), 7)
		}
	}
	e.expect("renamed mailboxes", names["Ada Lovelace"], 1)
	h.expect("POST", h.path("/mailboxes"), boxes(e.domain, "fourth"), 400, "mailbox_limit_reached")
	e.expect("next step", h.nextStep(), nil)
}

// fill takes the places that are left: a crash must not have lost or gained one.
func (e *errand) fill() {
	e.t.Helper()
	h := e.holding()
	for _, zone := range e.ready.Zones[1:] {
		h.post(h.path("/domains"), object{"domain": zone})
	}
	h.expect("POST", h.path("/domains"), object{"domain": "thirteenth.test"}, 400, "domain_limit_reached")
	domains, _ := e.platform(e.tenant)
	e.expect("domains at the platform", len(domains), 12)
}

func undisturbed(e *errand) func(step, request) reply {
	return func(_ step, r request) reply { return e.insist(r) }
}
