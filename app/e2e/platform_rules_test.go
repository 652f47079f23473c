// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// platformTargets are the calls that a fault of drawFault can affect.
var platformTargets = []object{
	{"operation": "token"},
	{"match": "GET /graph/"}, {"match": "POST /graph/"}, {"match": "PATCH /graph/"},
	{"match": "POST /exchange/"}, {"match": "POST /exchange/", "writes_only": true},
}

// drawFault returns a random fault of the mail platform: throttling, an outage, an expired token, a
// lost call, or an answer that is lost, late or cut off.
func drawFault(random *rand.Rand) object {
	target := platformTargets[random.IntN(len(platformTargets))]
	kinds := []object{
		{"kind": "status", "status": 429, "retry_after": 1 + random.IntN(3)},
		{"kind": "status", "status": 429, "retry_after": 1 + random.IntN(3)},
		{"kind": "status", "status": 429},
		{"kind": "status", "status": 503, "retry_after": 1 + random.IntN(2)},
		{"kind": "status", "status": []int{500, 502, 503, 504}[random.IntN(4)]},
		{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "truncate"},
		{"kind": "delay", "delay_ms": 100 + random.IntN(900)}, {"kind": "delay_after", "delay_ms": 100 + random.IntN(900)},
	}
	if target["operation"] == nil { // a 401 of the login host would mean that the secret is wrong
		kinds = append(kinds, object{"kind": "status", "status": 401, "times": 1})
	}
	fault := object{"provider": mailPlatform, "times": 1 + random.IntN(3), "skip": random.IntN(4)}
	maps.Copy(fault, target)
	maps.Copy(fault, kinds[random.IntN(len(kinds))])
	return fault
}

// drawTenant returns the request bodies for a random variant of a simulated tenant: setup creates
// the tenant, and behaviour changes its behaviour.
func drawTenant(random *rand.Rand, bootstrap string) (setup, behaviour object) {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	replicas := func() object {
		return object{"lag_ms": random.IntN(1500), "answers": pick("", "lists", "objects", "all", "alternate")}
	}
	return object{"bootstrap": bootstrap}, object{
		"throttle_scope": pick("Tenant_Application", "Tenant", "Application"),
		"graph_replicas": replicas(), "exchange_replicas": replicas(),
		"page_size": pick(1, 2, 1000), "trace_page": pick(0, 10, 40), "trace_duplicates": pick(true, false), "trace_bare": pick(true, false),
		"domain_conflict": pick(400, 409), "early_records": pick("empty", "unavailable", "refused"),
		"upn_alias": pick(true, false), "dkim_listed": pick(true, false), "dkim_letter": pick("n", "p"), "nul_403": pick(true, false),
		"consent_ms": pick(0, 1000), "role_ms": pick(0, 1000), "accepted_domain_ms": pick(0, 1000),
		"mailbox_ms": pick(0, 1000), "domain_ms": pick(0, 500), "hydrate_ms": pick(0, 1000), "token_seconds": pick(60, 3599),
	}
}

// TestFaultsBreakNoRuleOfThePlatform takes tenants from onboarding to removal while random faults
// occur at the mail platform. The journal of the simulator must show no broken rule of the
// platform, such as a call before a Retry-After has passed. Two tenants run at the same time, and a
// fault can hit calls of both. One tenant is dehydrated: Exchange does not allow its customization
// yet. A soak tests 12 pairs of tenants.
func TestFaultsBreakNoRuleOfThePlatform(t *testing.T) {
	t.Parallel()
	c, random, pairs := privateSandbox(t), soak.Rand(t), 1
	if soak.Enabled() {
		pairs = 12
	}
	for n := range pairs {
		t.Run(fmt.Sprint("pair ", n+1), func(t *testing.T) { checkPlatformRules(t, c.withT(t), random) })
	}
}

// checkPlatformRules takes two tenants from onboarding to removal while faults occur, and checks
// the platform's journal.
func checkPlatformRules(t *testing.T, c caller, random *rand.Rand) {
	t.Helper()
	var lock sync.Mutex // random is not safe for concurrent use
	injectRandomFault := func() {
		lock.Lock()
		defer lock.Unlock()
		c.control("POST", "/faults", drawFault(random))
	}
	c.control("POST", "/faults", object{"provider": mailPlatform, "match": "GET /graph/", "kind": "status", "status": 429, "retry_after": 1, "times": 1})
	t.Run("tenants", func(t *testing.T) {
		for _, bootstrap := range []string{"ready", "dehydrated"} {
			setup, behaviour := drawTenant(random, bootstrap)
			t.Run(bootstrap, func(t *testing.T) {
				t.Parallel()
				t.Logf("the tenant: %v", behaviour)
				j := newJourney(c.withT(t), setup, behaviour)
				j.prepare = injectRandomFault
				j.onboard()
				ids := j.mailboxIDs()
				j.rename(ids["ada@"+j.zones[0]])
				j.checkLimits(ids)
				j.remove(ids)
			})
		}
	})
	c.control("DELETE", "/faults", nil)
	throttled := 0
	for _, call := range c.journal(mailPlatform) {
		if call["violation"] != nil {
			t.Errorf("the platform reports the violation %q: %s %s at %s", call["violation"], call["operation"], call["path"], call["at"])
		}
		if call["status"] == 429.0 || call["status"] == 503.0 {
			throttled++
		}
	}
	if throttled == 0 {
		t.Error("no call was answered 429 or 503, want at least one")
	}
	c.control("DELETE", "/calls", nil)
}
