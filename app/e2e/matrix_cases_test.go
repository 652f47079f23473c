// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// attempt is one request that a row of the matrix asks for. Several that are
// malformed in their own way make one row.
type attempt struct {
	by      estate
	auth    []string // instead of the account's key
	keys    []string // the Idempotency-Key headers
	ids     map[string]string
	body    string
	path    string // instead of the operation's, with a query
	prepare func(t *testing.T, a attempt)
}

const (
	noSuchID   = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	noSuchZone = "unknown.example"
)

var noSuchKey = "tny_live_" + strings.Repeat("0", 48)

// own is a good request of an account on what is its own.
func (p *population) own(m manor, op operation) attempt {
	return attempt{by: m.estate, ids: m.ids, body: goodBody(m.estate, op), path: queried(op.path), keys: []string{p.newKey()}}
}

func (p *population) newKey() string { return fmt.Sprint("matrix-", serial.Add(1)) }

// variants gives a copy of the attempt for each value of a parameter.
func (a attempt) variants(param string, values ...string) (all []attempt) {
	for _, value := range values {
		v := a
		v.ids = maps.Clone(a.ids)
		v.ids[param] = value
		all = append(all, v)
	}
	return all
}

func (a attempt) authorized(values ...string) attempt {
	a.auth = append([]string{}, values...) // none is not the key
	return a
}

func (a attempt) in(domain string) attempt {
	a.body = strings.ReplaceAll(a.body, a.by.ids["domain_name"], domain)
	return a
}

// scoped asks for the limit of a domain.
func (a attempt) scoped(op operation, domain string) attempt {
	if op.method == "GET" {
		a.path += "?domain_scope=" + domain
	} else {
		a.body = `{"daily_send_limit":5,"domain_scope":"` + domain + `"}`
	}
	return a
}

// about asks for what happened in one tenant.
func (a attempt) about(guid string) attempt {
	a.path += "?tenant_id=" + guid
	return a
}

// goodBody is a body that only ownership can refuse.
func goodBody(e estate, op operation) string {
	switch op.method + " " + op.path {
	case "POST /v1/tenants/{tenant_id}/domains":
		return `{"domain":"` + e.ids["domain_name"] + `"}`
	case "POST /v1/tenants/{tenant_id}/mailboxes":
		raw, _ := json.Marshal(boxes(e.ids["domain_name"], "ada"))
		return string(raw)
	case "PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}":
		return `{"daily_send_limit":5}`
	case "POST /v1/tenants/{tenant_id}/mailbox-limits":
		return `{"daily_send_limit":5}`
	case "POST /v1/integrations":
		raw, _ := json.Marshal(e.credentialAt(sellsAt))
		return string(raw)
	}
	return ""
}

// malformed are values in the place of an id.
func (p *population) malformed(param string) []string {
	id := p.a.ids[param]
	return []string{"x", "..%2f", "%00", "urn:uuid:" + id, "{" + id + "}", strings.ReplaceAll(id, "-", ""), id + "0", "0", "%ff", strings.Repeat("9", 300)}
}

// attempts makes the requests of a row. A condition that it does not know has
// none, which is an error of the test that runs the matrix.
func (p *population) attempts(op operation, condition string) []attempt {
	a := p.own(p.a, op)
	one := func(a attempt) []attempt { return []attempt{a} }
	b, far := p.b.ids, p.a.second.ids
	switch condition {
	case "no_authorization_header":
		return one(a.authorized())
	case "malformed_header_basic_scheme":
		return one(a.authorized("Basic eDp5"))
	case "malformed_header_no_space":
		return []attempt{a.authorized("Bearer" + a.by.key), a.authorized(a.by.key)}
	case "two_authorization_headers":
		return one(a.authorized("Bearer "+a.by.key, "Bearer "+a.by.key))
	case "empty_bearer":
		return []attempt{a.authorized("Bearer"), a.authorized("Bearer "), a.authorized("bearer   ")}
	case "bad_key_format":
		return []attempt{a.authorized("Bearer " + a.by.key[:56]), a.authorized("Bearer " + a.by.key + "0"), a.authorized("Bearer " + strings.ToUpper(a.by.key)),
			a.authorized("Bearer x" + a.by.key), a.authorized("Bearer " + a.by.key + " x"), a.authorized("Bearer " + strings.Repeat("a", 8<<10))}
	case "unknown_key":
		return one(a.authorized("Bearer " + noSuchKey))
	case "rotated_key", "rotated_key_reused":
		return one(a.authorized("Bearer " + p.retired))
	case "unknown_key_and_invalid_body":
		a.body = `{"domain":`
		return one(a.authorized("Bearer " + noSuchKey))
	case "unknown_key_and_no_idempotency_key":
		a.keys = nil
		return one(a.authorized("Bearer " + noSuchKey))
	case "lapsed_plan":
		return one(p.own(p.lapsed, op))
	case "lapsed_plan_and_foreign_resource":
		l := p.own(p.lapsed, op)
		l.ids = b
		return one(l)
	case "legacy_entitlement_trial_key":
		return one(p.spared(p.own(p.trial, op), op))
	case "ceiling_reached":
		a.by.caller = p.full
		return one(a)
	case "over_ceiling_after_downgrade":
		return one(p.own(p.shrunk, op))
	case "list_isolation":
		return one(a)
	case "unknown_tenant":
		return a.variants("tenant_id", noSuchID)
	case "foreign_tenant":
		return a.variants("tenant_id", b["tenant_id"])
	case "unassigned_managed_tenant":
		return a.variants("tenant_id", p.managed.guid)
	case "formerly_assigned_managed_tenant":
		return a.variants("tenant_id", p.returned.guid)
	case "deleted_own_tenant":
		return a.variants("tenant_id", p.deleted.guid)
	case "malformed_tenant_id":
		return a.variants("tenant_id", p.malformed("tenant_id")...)
	case "tenant_resource_id_instead_of_guid":
		return a.variants("tenant_id", a.ids["row"])
	case "own_tenant_guid_upper_case":
		a = p.spared(a, op)
		return a.variants("tenant_id", strings.ToUpper(a.ids["tenant_id"]))
	case "unknown_domain_name":
		return a.variants("domain_name", noSuchZone)
	case "domain_of_other_own_tenant":
		return a.variants("domain_name", far["domain_name"])
	case "foreign_domain_name_under_own_tenant":
		return a.variants("domain_name", b["domain_name"])
	case "domain_name_case_and_trailing_dot":
		return a.variants("domain_name", strings.ToUpper(a.ids["domain_name"])+".")
	case "own_domain_name_under_foreign_tenant", "own_mailbox_under_foreign_tenant":
		return a.variants("tenant_id", b["tenant_id"])
	case "unknown_domain_in_body.domain":
		return one(a.in(noSuchZone))
	case "foreign_domain_in_body.domain":
		return one(a.in(b["domain_name"]))
	case "domain_of_other_own_tenant_in_body.domain":
		return one(a.in(far["domain_name"]))
	case "unknown_domain_in_domain_scope":
		return one(a.scoped(op, noSuchZone))
	case "foreign_domain_in_domain_scope":
		return one(a.scoped(op, b["domain_name"]))
	case "domain_of_other_own_tenant_in_domain_scope":
		return one(a.scoped(op, far["domain_name"]))
	case "unknown_tenant_in_query":
		return one(a.about(noSuchID))
	case "foreign_tenant_in_query":
		return one(a.about(b["tenant_id"]))
	case "unassigned_managed_tenant_in_query":
		return one(a.about(p.managed.guid))
	case "unknown_mailbox_under_own_tenant", "unknown_mailbox_under_own_integration":
		return a.variants("mailbox_id", noSuchID)
	case "foreign_mailbox_under_own_tenant", "foreign_mailbox_under_own_integration":
		return a.variants("mailbox_id", b["mailbox_id"])
	case "mailbox_of_other_own_tenant":
		return a.variants("mailbox_id", far["mailbox_id"])
	case "malformed_mailbox_id":
		return a.variants("mailbox_id", p.malformed("mailbox_id")...)
	case "unknown_domain_id":
		return a.variants("domain_id", noSuchID)
	case "foreign_domain_id":
		return a.variants("domain_id", b["domain_id"])
	case "malformed_domain_id":
		return a.variants("domain_id", p.malformed("domain_id")...)
	case "domain_id_of_unassigned_managed_tenant":
		return a.variants("domain_id", p.ids["managed"])
	case "domain_id_of_deleted_tenant":
		return a.variants("domain_id", p.ids["deleted"])
	case "unknown_run":
		return a.variants("run_id", noSuchID)
	case "foreign_run":
		return a.variants("run_id", b["run_id"])
	case "malformed_run_id":
		return a.variants("run_id", p.malformed("run_id")...)
	case "unknown_job":
		return a.variants("job_id", noSuchID)
	case "foreign_job":
		return a.variants("job_id", b["job_id"])
	case "malformed_job_id":
		return a.variants("job_id", p.malformed("job_id")...)
	case "own_job_of_since_unassigned_tenant":
		return a.variants("job_id", p.ids["returned job"])
	case "valid_key_user_email_of_other_account":
		a.path += "?user_email=" + p.b.email
		return one(a)
	case "valid_key", "any_on_public_listener":
		return one(a)
	}
	if all := p.sellsAttempts(a, condition); len(all) > 0 {
		return all
	}
	return p.repeated(op, condition)
}

// spared is an attempt on a resource that may go, where the operation deletes
// it.
func (p *population) spared(a attempt, op operation) attempt {
	switch {
	case strings.HasPrefix(op.path, "/v1/integrations/{"):
		return p.sparedSale(a, op)
	case op.method == "DELETE":
		h := a.by.newTenant(nil).connect()
		a.ids = map[string]string{"tenant_id": h.guid}
	}
	return a
}

// repeated are the conditions of requests that carry a key which was used.
func (p *population) repeated(op operation, condition string) []attempt {
	a := p.spared(p.own(p.a, op), op)
	first := func(t *testing.T, a attempt) {
		if got := p.send(t, op, a); got.status != 200 {
			t.Errorf("the first request: %d %s", got.status, got.raw)
		}
	}
	switch condition {
	case "missing_idempotency_key":
		a.keys = nil
		return []attempt{a}
	case "malformed_idempotency_key":
		return []attempt{a.keyed(""), a.keyed(strings.Repeat("k", 256)), a.keyed("a b"), a.keyed("ü"), a.keyed("one", "two")}
	case "same_key_value_used_by_other_account":
		a.prepare = func(t *testing.T, a attempt) {
			other := p.spared(p.own(p.b, op), op)
			other.keys = a.keys
			first(t, other)
		}
	case "replay_own_key", "replay_after_resource_is_gone":
		a.prepare = first
	case "same_key_other_fingerprint":
		good := a.path
		a.prepare = func(t *testing.T, a attempt) {
			a.path = good
			first(t, a)
		}
		a.path += "?x=1"
	case "replay_with_lapsed_plan":
		a = p.spared(p.own(p.spare, op), op)
		a.prepare = func(t *testing.T, a attempt) {
			first(t, a)
			p.spare.with(t).plan(object{"plan": "complete", "active": false})
			t.Cleanup(func() { p.spare.with(t).plan(object{"plan": "complete", "active": true}) })
		}
	case "replay_with_rotated_key":
		a = p.spared(p.own(p.spare, op), op)
		a.prepare = func(t *testing.T, a attempt) {
			first(t, a)
			p.spare.t = t
			p.spare.rotates()
		}
	default:
		return nil
	}
	return []attempt{a}
}

func (a attempt) keyed(keys ...string) attempt {
	a.keys = keys
	return a
}
