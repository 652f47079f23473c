// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// desk is where the operator of the shared sandbox sits: its database.
func desk(operator string) []string {
	return []string{"TENANTRY_DATA_DIR=" + filepath.Join(scratch, "shared"), "TENANTRY_OPERATOR=" + operator}
}

// does runs an operator's command on the caller's account.
func (c caller) does(args ...string) object {
	c.t.Helper()
	return operate(c.t, desk("carol@desk"), append(args, "--account", c.id, "-o", "json")...).json(c.t)
}

const standingMembers = "account_id email plan active tenant_slots created_at status tenant_slots_from tenants_held closed_at"

// TestSuspendedAccount: 402 before anything else, and nothing is lost.
func TestSuspendedAccount(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).newTenant(nil).connect()
	for range 2 { // the second time nothing changes
		suspended := h.does("account", "suspend")
		has(t, "suspend", suspended, standingMembers)
		sees(t, suspended, object{"account_id": h.id, "status": "suspended", "active": false, "plan": "complete", "tenants_held": 1})
	}
	h.expect("GET", "/v1/tenants", nil, 402, "no_api_plan")
	h.expect("POST", "/api-key/rotate?user_email="+url.QueryEscape(h.email), nil, 402, "no_api_plan")
	sees(t, h.does("account", "plan", "--plan", "api_growth"), object{"plan": "api_growth", "status": "suspended"})
	h.expect("GET", "/v1/tenants", nil, 402, "no_api_plan")
	for range 2 {
		sees(t, h.does("account", "resume"), object{"status": "active", "active": true, "plan": "api_growth"})
	}
	h.listsTenants(h.guid)
	h.told("account.create", "key.create", "account.suspend", "account.plan", "account.resume")
}

// TestPlanOfAnAccount: a plan brings its own slots, and the next request is
// held to them.
func TestPlanOfAnAccount(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"plan": "legacy_trial", "tenant_slots": 1})
	c.newTenant(nil).connect()
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	for _, tt := range []struct {
		args []string
		want object
		full bool
	}{
		{[]string{"--plan", "api_scale"}, object{"plan": "api_scale", "tenant_slots": 100, "tenant_slots_from": "plan"}, false},
		{[]string{"--tenant-slots", "1"}, object{"plan": "api_scale", "tenant_slots": 1, "tenant_slots_from": "account"}, true},
		{[]string{"--tenant-slots", "0"}, object{"plan": "api_scale", "tenant_slots": 100, "tenant_slots_from": "plan"}, false},
		{[]string{"--plan", "complete", "--tenant-slots", "2"}, object{"plan": "complete", "tenant_slots": 2, "tenant_slots_from": "account"}, false},
		{[]string{"--plan", "legacy_trial"}, object{"plan": "legacy_trial", "tenant_slots": 5, "tenant_slots_from": "plan", "tenants_held": 1}, false},
	} {
		changed := c.does(append([]string{"account", "plan"}, tt.args...)...)
		has(t, "plan", changed, standingMembers)
		sees(t, changed, tt.want)
		if tt.full {
			c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
		} else {
			c.get("/v1/tenants/connect-url")
		}
	}
	shown := c.does("account", "show")
	has(t, "show", shown, standingMembers+" active_keys")
	sees(t, shown, object{"email": c.email, "status": "active", "active_keys": 1, "closed_at": nil})
}

// TestKeysOfAnAccount: a rotated and a revoked key answer 401 from then on,
// and a list never holds a key.
func TestKeysOfAnAccount(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"key_form": "trial"})
	first := c.does("key", "list").objects("keys")[0]
	has(t, "key", first, "key_id account_id key_hint form name status created_at revoked_at")
	sees(t, first, object{"account_id": c.id, "form": "trial", "status": "active", "revoked_at": nil, "key_hint": c.key[len(c.key)-4:]})

	rotated := operate(t, desk(""), "key", "rotate", "--key", first.text("key_id"), "-o", "json").json(t)
	has(t, "rotate", rotated, "key_id account_id api_key key_hint form name created_at status replaced_key_id rotated_at")
	sees(t, rotated, object{"account_id": c.id, "form": "live", "name": first["name"], "status": "rotated", "replaced_key_id": first["key_id"]})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	operate(t, desk(""), "key", "rotate", "--key", first.text("key_id")).fails(t, cli.ExitRefused)
	c.key = rotated.text("api_key")
	c.get("/v1/tenants")

	revoke := []string{"key", "revoke", "--key", rotated.text("key_id"), "-o", "json"}
	revoked := operate(t, desk(""), revoke...).json(t)
	has(t, "revoke", revoked, "key_id status revoked_at")
	sees(t, revoked, object{"key_id": rotated["key_id"], "status": "revoked"})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	sees(t, operate(t, desk(""), revoke...).json(t), revoked) // again: the first time stays

	raw := operate(t, desk(""), "key", "list", "--account", c.email, "-o", "json")
	for i, key := range raw.json(t).objects("keys") {
		sees(t, key, object{"status": "revoked", "key_id": []any{first["key_id"], rotated["key_id"]}[i]})
	}
	table := operate(t, desk(""), "key", "list").output
	if regexp.MustCompile(`[0-9a-f]{40}`).MatchString(raw.output+table) || !strings.Contains(table, rotated.text("key_id")) {
		t.Errorf("a key is shown, or %s is not:\n%s%s", rotated.text("key_id"), raw.output, table)
	}
	c.told("account.create", "key.create", "key.rotate", "key.revoke")
}

// TestClosedAccount: its keys are dead, its tenants free for another account,
// and what it was stays on record.
func TestClosedAccount(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	h := c.newTenant(nil).connect()
	managed := c.newTenant(nil)
	c.control("POST", "/managed", object{"tenant_id": managed.guid, "account_id": c.id})
	asked := operate(t, desk(""), "account", "close", "--account", c.email)
	asked.fails(t, cli.ExitRefused)
	if !strings.Contains(asked.errors, "--yes") {
		t.Errorf("it does not say what to do: %s", asked.errors)
	}
	h.listsTenants(managed.guid, h.guid)

	closed := c.does("account", "close", "--yes")
	has(t, "close", closed, "account_id email status closed_at keys_revoked tenants_released dns_connections_removed integrations_removed tenants_unruled rules_left")
	sees(t, closed, object{"account_id": c.id, "email": c.email, "status": "closed", "keys_revoked": 1, "tenants_released": 2})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	sees(t, c.does("account", "close"), object{"closed_at": closed["closed_at"], "keys_revoked": 0}) // again: nothing to ask
	for _, args := range [][]string{
		{"account", "plan", "--plan", "complete"}, {"account", "suspend"}, {"account", "resume"}, {"key", "create"},
		{"tenant", "assign", "--tenant", h.guid},
	} {
		operate(t, desk(""), append(args, "--account", c.id)...).fails(t, cli.ExitRefused)
	}
	sees(t, c.does("account", "show"), object{"status": "closed", "email": c.email, "tenants_held": 0, "active_keys": 0, "closed_at": closed["closed_at"]})

	again := common(t).newCaller(object{"email": c.email})
	h.caller = again
	h.connect()
	again.listsTenants(h.guid)
	again.control("POST", "/managed", object{"tenant_id": managed.guid, "account_id": again.id})
	sees(t, operate(t, desk(""), "account", "show", "--account", c.email, "-o", "json").json(t), object{"account_id": again.id})

	events := c.told("account.create", "key.create", "tenant.assign", "tenant.release", "tenant.release", "key.revoke", "account.close")
	released := events[3].at("details.tenant_id").(string) + events[4].at("details.tenant_id").(string)
	if !strings.Contains(released, h.guid) || !strings.Contains(released, managed.guid) {
		t.Errorf("the record forgets which tenants were released: %v", events)
	}
}

// TestTenantList: what is stored, of one account or of all.
func TestTenantList(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).newTenant(nil).connect()
	listed := h.does("tenant", "list")
	has(t, "list", listed, "tenants count")
	one := listed.objects("tenants")[0]
	has(t, "tenant", one, "id tenant_id account_id account_email tenant_name tenant_domain default_domain managed status readiness consented_at last_sync_at time_zone counted_at mailboxes_blocked")
	sees(t, one, object{
		"tenant_id": h.guid, "account_id": h.id, "account_email": h.email, "managed": false, "status": "pending",
		"readiness.next_step": "sync", "readiness.exchange_bootstrap": "pending", "last_sync_at": nil, "time_zone": "UTC", "counted_at": nil, "mailboxes_blocked": 0,
	})
	h.synced()
	h.verified()
	api := h.get(h.path(""))
	one = h.does("tenant", "list").objects("tenants")[0]
	has(t, "readiness", one.at("readiness"), "consent exchange_bootstrap smtp_auth discovery domains_verified domains_total mailboxes_total ready_to_provision next_step headroom")
	sees(t, one, object{
		"status": "ready", "id": api.text("id"), "tenant_name": api.text("tenant_name"), "tenant_domain": api.text("tenant_domain"),
		"default_domain": api.text("default_domain"), "readiness": api.at("readiness"),
	})
	if table := operate(t, desk(""), "tenant", "list").output; !strings.HasPrefix(table, "ID ") || !strings.Contains(table, h.guid) {
		t.Errorf("the table of all tenants:\n%s", table)
	}
}

// told checks which acts on the account are on record, oldest first.
func (c caller) told(want ...string) []object {
	c.t.Helper()
	listed := operate(c.t, desk(""), "audit", "list", "--account", c.id, "-o", "json").json(c.t)
	has(c.t, "audit", listed, "events count")
	events := listed.objects("events")
	var actions []string
	for i := len(events) - 1; i >= 0; i-- {
		actions = append(actions, events[i].text("action"))
	}
	if strings.Join(actions, " ") != strings.Join(want, " ") {
		c.t.Errorf("on record are %v, want %v", actions, want)
	}
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
	return events
}
