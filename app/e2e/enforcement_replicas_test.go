// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// enforcingReplicas are two services with one database, one Redis and one mail platform. Both the
// services and the tests start passes. The tests use the control interface.
type enforcingReplicas struct {
	*serviceFixture
	redis   string
	clients [2]client
	// accountAtFirst is the account, as a caller of the first service. Its control requests go to
	// the simulated mail platform.
	accountAtFirst caller
	tenants        []limitedTenant
	began          time.Time // before the first pass
}

// newEnforcingReplicas starts two services that share one keyset.
func newEnforcingReplicas(t *testing.T) *enforcingReplicas {
	t.Helper()
	replicas := &enforcingReplicas{serviceFixture: newServiceFixture(t, requirePrograms(t, releaseBuild)), redis: testserver.NewRedis(t).URL, began: time.Now()}
	database, keyset := testserver.Database(t), []byte(nil)
	for i := range replicas.clients {
		dataDir := t.TempDir()
		if i > 0 {
			must(t, os.WriteFile(filepath.Join(dataDir, "keyset.json"), keyset, 0o600))
		}
		_, ready := startDev(t, replicas.build, dataDir, append(replicas.env(dataDir, ""), slowRedis), "--no-seed", "--database", database, "--redis", replicas.redis)
		replicas.clients[i] = client{t, ready}
		var err error
		if keyset, err = os.ReadFile(filepath.Join(dataDir, "keyset.json")); err != nil {
			t.Fatal(err)
		}
	}
	replicas.accountAtFirst = seededAccount(t, replicas.clients[0].ready)
	replicas.accountAtFirst.ready.ControlURL = replicas.url + "/_control"
	return replicas
}

func (r *enforcingReplicas) addLimitedTenant(perDay int, localParts ...string) {
	r.t.Helper()
	tenant := r.accountAtFirst.newTenant(nil)
	newAdministrator(r.t, tenant.admin).connect(r.accountAtFirst.client, r.accountAtFirst.key)
	tenant.mustSync()
	zone := fmt.Sprintf("replicas-%d.test", uniqueNumber.Add(1))
	must(r.t, r.zones.Add(zone, "manual"))
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, localParts...))
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": perDay})
	r.tenants = append(r.tenants, limitedTenant{tenant, zone, tenant.get(tenant.path("/mailboxes")).objects("mailboxes")})
}

// setClocks moves the clocks of both services and of the platform.
func (r *enforcingReplicas) setClocks(to object) {
	r.t.Helper()
	for _, c := range append(r.clients[:], r.accountAtFirst.client) {
		c.control("POST", "/clock", to)
	}
}

// enforceConcurrently starts enforcement twice in each service, all at once. No cmdlet that changes
// rules may run twice for a tenant, and no pass may fail. If the runs took at least slowRun, a pass
// can have failed or lost its lease, and a later pass may have repeated a cmdlet.
// enforceConcurrently then only makes sure that a later pass succeeds.
func (r *enforcingReplicas) enforceConcurrently() {
	r.t.Helper()
	requestsBefore, failedBefore, began := len(r.recordedRequests()), r.countFailedPasses(), time.Now()
	var runs sync.WaitGroup
	for _, c := range slices.Concat(r.clients[:], r.clients[:]) {
		runs.Go(func() { c.control("POST", "/enforcement/run", nil) })
	}
	runs.Wait()
	if time.Since(began) >= slowRun {
		r.clients[0].enforceUntilOutcome("done")
		return
	}
	if failed := r.countFailedPasses() - failedBefore; failed != 0 {
		r.t.Errorf("%d passes failed, want none", failed)
	}
	writes := map[string]int{}
	for _, sent := range r.recordedRequests()[requestsBefore:] {
		if slices.Contains(ruleCmdlets, sent.cmdlet()) {
			writes[sent.cmdlet()+" "+sent.path]++
		}
	}
	for write, n := range writes {
		if n != 1 {
			r.t.Errorf("the cmdlet was run %d times, want once: %s", n, write)
		}
	}
}

// countFailedPasses returns the number of failed passes of both services.
func (r *enforcingReplicas) countFailedPasses() (total int) {
	r.t.Helper()
	for _, c := range r.clients {
		_, failed := c.countPasses("done")
		total += failed
	}
	return total
}

// TestReplicasShareEnforcement checks that two services which enforce concurrently block and
// unblock a mailbox once, and share the request budget of a tenant's trace.
func TestReplicasShareEnforcement(t *testing.T) {
	t.Parallel()
	replicas := newEnforcingReplicas(t)
	replicas.setClocks(object{"now": "2031-03-10T10:00:00Z"})
	replicas.addLimitedTenant(5, "ada", "max")
	replicas.addLimitedTenant(5, "ada")
	rounds := 2
	if soak.Enabled() {
		// A round reads about 9 pages of the message trace. A tenant allows 100 pages in 5 minutes.
		rounds = 6
	}
	for round := range rounds {
		for _, limited := range replicas.tenants {
			limited.send(0, 6+round)
		}
		replicas.enforceConcurrently()
		for _, limited := range replicas.tenants {
			limited.checkBlocked(0)
		}
		replicas.setClocks(object{"advance": "24h"})
		replicas.enforceConcurrently()
		for _, limited := range replicas.tenants {
			limited.checkBlocked()
			want := []string{}
			for n := range round + 1 {
				want = append([]string{"Mailbox unblocked: sent 0, limit 5", fmt.Sprintf("Mailbox blocked: sent %d, limit 5", 6+n)}, want...)
			}
			var got []string
			for _, e := range limited.get("/v1/enforcement/events?limit=200&tenant_id=" + limited.guid).objects("events") {
				got = append(got, e.text("message"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("round %d: the events are %q, want %q", round, got, want)
			}
		}
	}
	replicas.checkTraceBudget()
}

// checkTraceBudget uses up the first tenant's budget of trace pages except for three pages. A page
// counts for five minutes. The replicas together must request only these three pages, and must
// still read the second tenant's trace. More pages are allowed if the machine is so slow that the
// pages of earlier passes no longer count.
func (r *enforcingReplicas) checkTraceBudget() {
	r.t.Helper()
	counters, err := limiter.Open(r.t.Context(), limiter.Options{URL: r.redis, AnswerTimeout: time.Minute})
	must(r.t, err)
	defer func() { _ = counters.Close() }()
	const remainingPages = 3
	bucket := ratelimit.Bucket{Key: "budget:microsoft365:tenant:" + r.tenants[0].guid + ":5m0s:sent", Limit: 100, Window: 5 * time.Minute}
	allCount := func() bool { return time.Since(r.began) < bucket.Window }
	counted := 0
	for {
		decision, _ := counters.Take(r.t.Context(), bucket)
		if decision.Remaining == remainingPages {
			break
		}
		if counted++; !decision.Allowed || counted > 100 {
			r.t.Fatalf("the trace is counted in a different bucket: %+v", decision)
		}
	}
	if counted+1 == 100-remainingPages && allCount() {
		r.t.Error("the requests of the replicas are counted in a different bucket")
	}
	pagesBefore, runsBegan := []int{r.tracePages(0), r.tracePages(1)}, time.Now()
	for i := range 2 * remainingPages {
		r.clients[i%2].control("POST", "/enforcement/run", nil)
	}
	// A pass is cut after 25 s of trace calls, and a call that was cut may never reach the
	// platform.
	noneCut := time.Since(runsBegan) < slowRun
	firstTenantPages, secondTenantPages := r.tracePages(0)-pagesBefore[0], r.tracePages(1)-pagesBefore[1]
	if firstTenantPages < remainingPages && noneCut || firstTenantPages > remainingPages && allCount() {
		r.t.Errorf("%d pages of the first tenant's trace were requested, want %d", firstTenantPages, remainingPages)
	}
	if secondTenantPages < 2*remainingPages && noneCut {
		r.t.Errorf("%d pages of the second tenant's trace were requested, want at least %d", secondTenantPages, 2*remainingPages)
	}
	r.tenants[0].checkBlocked()
}

// tracePages counts the pages of the trace that the platform returned for the tenant with this
// index. Responses that ask for a new token do not count.
func (r *enforcingReplicas) tracePages(index int) (pages int) {
	for _, sent := range r.recordedRequests() {
		if sent.status == http.StatusOK && sent.cmdlet() == exchange.GetMessageTrace && strings.Contains(sent.path, r.tenants[index].guid) {
			pages++
		}
	}
	return pages
}
