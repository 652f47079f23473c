// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// longWait is a Retry-After, in seconds, that is longer than the test. It is the longest that the
// service obeys.
const longWait = 3600

// TestReplicasShareWaits checks that a Retry-After which one service gets from the mail platform
// also delays the calls of a second service with the same Redis. The second service makes no call
// in the scope of the wait, and still makes calls in other scopes. If the second service cannot
// continue, it tells its caller how long to wait.
func TestReplicasShareWaits(t *testing.T) {
	t.Parallel()
	redis := testserver.NewRedis(t)
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), testserver.Database(t)), "TENANTRY_REDIS_URL="+redis.URL, slowRedis)
	fixture.runCommand(env, "migrate")
	id, key := fixture.newAccount(env, "owner@example.com", "complete", 5)
	setupService, c := fixture.serve(env)
	owner := caller{c, id, "owner@example.com", key}
	connect := func() accountTenant {
		tenant := owner.newTenant(nil)
		newAdministrator(t, tenant.admin).connect(owner.client, key)
		tenant.mustSync()
		return tenant
	}
	type waitCase struct {
		name, match    string
		behaviour      object
		throttledPath  string        // the path prefix of the simulated host that asks for the wait
		freePath       string        // the path prefix of a simulated host that asks for no wait, or ""
		tenantOfFirst  accountTenant // the tenant that the first service syncs
		tenantOfSecond accountTenant // the tenant that the second service syncs
	}
	sameTenantCase := func(name, match, throttledPath, freePath string) waitCase {
		tenant := connect()
		return waitCase{name, match, nil, throttledPath, freePath, tenant, tenant}
	}
	cases := []waitCase{
		sameTenantCase("login host", "POST /login/", "/login/", ""),
		sameTenantCase("Graph in a tenant", "GET /graph/", "/graph/", "/exchange/"),
		sameTenantCase("Exchange in a tenant", "POST /exchange/", "/exchange/", "/graph/"),
		{"Graph in all tenants", "GET /graph/", object{"throttle_scope": "Application"}, "/graph/", "/exchange/", connect(), connect()},
	}
	must(t, setupService.stop())
	// The two services below have no tokens yet, so each begins with a request to the login host.
	// They run no background jobs, because the jobs would make further calls of the platform.
	env = append(env, "TENANTRY_WORKER=false")
	_, firstService := fixture.serve(env)
	_, secondService := fixture.serve(env)
	for _, tc := range cases {
		if tc.behaviour != nil {
			tc.tenantOfFirst.setBehaviour(tc.behaviour)
		}
		owner.control("POST", "/faults", object{"match": tc.match, "kind": "status", "status": http.StatusTooManyRequests, "retry_after": longWait, "times": 1})
		requestsBefore := len(fixture.recordedRequests())
		firstService.do("POST", firstService.ready.APIURL+tc.tenantOfFirst.path("/sync"), key, nil)
		requestsAfter := len(fixture.recordedRequests())
		got := secondService.do("POST", secondService.ready.APIURL+tc.tenantOfSecond.path("/sync"), key, nil)
		requests := fixture.recordedRequests()
		if n := countRequests(requests[requestsBefore:requestsAfter], func(call platformRequest) bool { return call.status == http.StatusTooManyRequests }); n != 1 {
			t.Errorf("%s: %d calls of the first service were throttled, want 1", tc.name, n)
		}
		callsTo := func(path string) int {
			return countRequests(requests[requestsAfter:], func(call platformRequest) bool { return strings.HasPrefix(call.path, path) })
		}
		if n := callsTo(tc.throttledPath); n != 0 {
			t.Errorf("%s: the second service made %d calls during the wait, want none", tc.name, n)
		}
		if tc.freePath != "" && callsTo(tc.freePath) == 0 {
			t.Errorf("%s: the second service made no call to %s: %d %s", tc.name, tc.freePath, got.status, got.raw)
		}
		if wait, _ := strconv.Atoi(got.header.Get("Retry-After")); tc.freePath == "" && (got.status != http.StatusServiceUnavailable || wait <= longWait/2) {
			t.Errorf("%s: the second service answers %d with Retry-After %d, want 503 with the rest of the wait: %s", tc.name, got.status, wait, got.raw)
		}
	}
	for _, call := range owner.journal(mailPlatform) {
		if call["violation"] != nil {
			t.Errorf("the platform reports the violation %q: %s %s at %s", call["violation"], call["operation"], call["path"], call["at"])
		}
	}
}

func countRequests(requests []platformRequest, matches func(platformRequest) bool) (n int) {
	for _, call := range requests {
		if matches(call) {
			n++
		}
	}
	return n
}
