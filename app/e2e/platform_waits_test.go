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
// in the scope of the wait, and still makes calls in other scopes. If it cannot continue, it tells
// its caller how long to wait.
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
		name, match string
		behaviour   object
		throttled   string // the path of the host that asks for the wait
		other       string // the path of a host that asks for no wait, or ""
		firstTenant accountTenant
		otherTenant accountTenant // the tenant that the second service syncs
	}
	inTenant := func(name, match, throttled, other string) waitCase {
		tenant := connect()
		return waitCase{name, match, nil, throttled, other, tenant, tenant}
	}
	cases := []waitCase{
		inTenant("login host", "POST /login/", "/login/", ""),
		inTenant("Graph in a tenant", "GET /graph/", "/graph/", "/exchange/"),
		inTenant("Exchange in a tenant", "POST /exchange/", "/exchange/", "/graph/"),
		{"Graph in all tenants", "GET /graph/", object{"throttle_scope": "Application"}, "/graph/", "/exchange/", connect(), connect()},
	}
	must(t, setupService.stop())
	// The two services below have no tokens yet, so each begins with a request to the login host.
	// They run no background jobs, because the jobs would make further calls of the platform.
	env = append(env, "TENANTRY_WORKER=false")
	_, first := fixture.serve(env)
	_, second := fixture.serve(env)
	for _, tt := range cases {
		if tt.behaviour != nil {
			tt.firstTenant.setBehaviour(tt.behaviour)
		}
		owner.control("POST", "/faults", object{"match": tt.match, "kind": "status", "status": http.StatusTooManyRequests, "retry_after": longWait, "times": 1})
		requestsBefore := len(fixture.recordedRequests())
		first.do("POST", first.ready.APIURL+tt.firstTenant.path("/sync"), key, nil)
		requestsAfter := len(fixture.recordedRequests())
		got := second.do("POST", second.ready.APIURL+tt.otherTenant.path("/sync"), key, nil)
		requests := fixture.recordedRequests()
		if n := countRequests(requests[requestsBefore:requestsAfter], func(call platformRequest) bool { return call.status == http.StatusTooManyRequests }); n != 1 {
			t.Errorf("%s: %d calls of the first service were throttled, want 1", tt.name, n)
		}
		calls := func(host string) int {
			return countRequests(requests[requestsAfter:], func(call platformRequest) bool { return strings.HasPrefix(call.path, host) })
		}
		if n := calls(tt.throttled); n != 0 {
			t.Errorf("%s: the second service made %d calls during the wait, want none", tt.name, n)
		}
		if tt.other != "" && calls(tt.other) == 0 {
			t.Errorf("%s: the second service made no call to %s: %d %s", tt.name, tt.other, got.status, got.raw)
		}
		if wait, _ := strconv.Atoi(got.header.Get("Retry-After")); tt.other == "" && (got.status != http.StatusServiceUnavailable || wait <= longWait/2) {
			t.Errorf("%s: the second service answers %d with Retry-After %d, want 503 with the rest of the wait: %s", tt.name, got.status, wait, got.raw)
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
