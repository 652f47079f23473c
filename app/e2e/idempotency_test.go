// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// identicalRequests returns how many identical requests sendIdentical sends.
func identicalRequests() int {
	if soak.Enabled() {
		return 100
	}
	return 30
}

// raceRounds returns the number of times that a test calls raceEveryWrite.
func raceRounds() int {
	if soak.Enabled() {
		return 50
	}
	return 1
}

// raceFixture has the servers to which identical requests are sent, and the platform whose writes
// are counted.
type raceFixture struct {
	*serviceFixture
	servers []client
	key     string
}

// sendIdentical sends identical requests to all servers at once and returns their common response.
// All responses but one must be replays.
func (f *raceFixture) sendIdentical(idempotencyKey, method, path string, body any, status int) reply {
	f.t.Helper()
	answers, errs, gate := make([]reply, identicalRequests()), make([]error, identicalRequests()), make(chan struct{})
	var requests sync.WaitGroup
	for i := range answers {
		requests.Go(func() {
			<-gate
			c := f.servers[i%len(f.servers)]
			answers[i], errs[i] = c.retryWhileUnavailable(idempotencyKey, method, path, f.key, body)
		})
	}
	close(gate)
	requests.Wait()
	var common reply
	notReplayed := 0
	for i, got := range answers {
		switch {
		case errs[i] != nil:
			f.t.Fatalf("%s %s got no response: %v", method, path, errs[i])
		case got.status != status || common.raw != nil && !bytes.Equal(got.raw, common.raw):
			f.t.Fatalf("%s %s: got %d %s\nwant %d and the response of the requests before, %s", method, path, got.status, got.raw, status, common.raw)
		default:
			common = got
			if got.header.Get("Idempotency-Replayed") == "" {
				notReplayed++
			}
		}
	}
	if notReplayed != 1 {
		f.t.Fatalf("%s %s has %d answers that are not replays, want 1", method, path, notReplayed)
	}
	return common
}

// countWrites counts the successful calls of an operation of the platform.
func (f *raceFixture) countWrites(pathSuffix, cmdlet string) (n int) {
	for _, sent := range f.recordedRequests() {
		if sent.method == http.MethodPost && strings.HasSuffix(sent.path, pathSuffix) && sent.status < 300 && sent.cmdlet() == cmdlet {
			n++
		}
	}
	return n
}

// raceWrite sends a write with sendIdentical and checks that the platform executed effect once.
// effect is a cmdlet or the end of a path. If it is "", no effect is checked.
func (f *raceFixture) raceWrite(method, path string, body any, effect string) reply {
	f.t.Helper()
	pathSuffix, cmdlet := "/InvokeCommand", effect
	if strings.HasPrefix(effect, "/") {
		pathSuffix, cmdlet = effect, ""
	}
	before := f.countWrites(pathSuffix, cmdlet)
	got := f.sendIdentical(rand.Text(), method, path, body, http.StatusOK)
	if n := f.countWrites(pathSuffix, cmdlet) - before; effect != "" && n != 1 {
		f.t.Errorf("%s %s: %s was done %d times, want once", method, path, effect, n)
	}
	return got
}

// raceEveryWrite takes a tenant from the sync to the deletion and sends each write with raceWrite.
func (f *raceFixture) raceEveryWrite() {
	f.t.Helper()
	c := f.servers[0]
	guid, admin := f.newTenant(c)
	newAdministrator(f.t, admin).connect(c, f.key)
	path := "/v1/tenants/" + guid
	if got := f.raceWrite("POST", path+"/sync", nil, "Set-TransportConfig"); got.text("status") != "completed" {
		f.t.Fatalf("the sync is not complete: %s", got.raw)
	}
	c.ready.APIKey = f.key
	zone := fmt.Sprintf("race-%d.test", uniqueNumber.Add(1))
	must(f.t, f.zones.Add(zone, "manual"))
	f.raceWrite("POST", path+"/domains", object{"domain": zone}, "/v1.0/domains")
	tenant := accountTenant{caller: caller{client: c, key: f.key}, guid: guid}
	tenant.publishRecords(zone)
	f.raceWrite("POST", path+"/domains/"+zone+"/verify", nil, "/domains/"+zone+"/verify")
	tenant.publishRecords(zone)
	f.raceWrite("POST", path+"/domains/"+zone+"/enable-dkim", nil, "Set-DkimSigningConfig")
	if created := f.raceWrite("POST", path+"/mailboxes", mailboxesBody(zone, "ada"), "New-Mailbox"); created.text("created_count") != "1" {
		f.t.Errorf("the answer is %s, want 1 created mailbox", created.raw)
	}
	mailboxID := tenant.get(path + "/mailboxes").objects("mailboxes")[0].text("id")
	f.raceWrite("PATCH", path+"/mailboxes/"+mailboxID, object{"display_name": "Ada L."}, "Set-Mailbox")
	f.raceWrite("DELETE", path, nil, "")
}

// TestIdenticalRequestsWriteOnce sends many identical requests at once, for each write of
// raceEveryWrite, to two servers on PostgreSQL and to one server on SQLite.
func TestIdenticalRequestsWriteOnce(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pair := newReplicaPair(t, "complete", 60)
		replicas := &raceFixture{serviceFixture: pair.serviceFixture, servers: pair.servers[:], key: pair.key}
		for range raceRounds() {
			replicas.raceEveryWrite()
		}
		if n := pair.queryInt("SELECT count(*) FROM idempotency_keys WHERE answer IS NULL"); n != 0 {
			t.Errorf("%d Idempotency-Keys have no stored answer, want none", n)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
		env := fixture.env(t.TempDir(), "")
		_, key := fixture.newAccount(env, "owner@example.com", "complete", 60)
		_, c := fixture.serve(env)
		single := &raceFixture{serviceFixture: fixture, servers: []client{c}, key: key}
		for range raceRounds() {
			single.raceEveryWrite()
		}
	})
}

// TestReplicaTakesOverAfterACrash kills a server on PostgreSQL that has claimed an Idempotency-Key,
// before and after the write. A different server answers idempotency_request_in_progress until the
// lease expires. Then it completes the request, and each domain is created once.
func TestReplicaTakesOverAfterACrash(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, failpointBuild))
	env := fixture.env(t.TempDir(), testserver.Database(t))
	fixture.runCommand(env, "migrate")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	_, survivor := fixture.serve(env)
	survivor.ready.APIKey = key
	guid, admin := fixture.newTenant(survivor)
	newAdministrator(t, admin).connect(survivor, key)
	accountTenant{caller: caller{client: survivor, key: key}, guid: guid}.mustSync()
	zoneOfFailpoint := map[string]string{"after claim an idempotency key": "", "before add_domain": "", "after add_domain": "", "after save domain": ""}
	for failpoint := range zoneOfFailpoint {
		zoneOfFailpoint[failpoint] = fmt.Sprintf("takeover-%d.test", uniqueNumber.Add(1))
		p, c := fixture.serve(append(env, "TENANTRY_FAILPOINTS="+failpoint))
		_, err := c.tryWithKey(zoneOfFailpoint[failpoint], "POST", c.ready.APIURL+"/v1/tenants/"+guid+"/domains", key, object{"domain": zoneOfFailpoint[failpoint]})
		if err == nil {
			t.Fatalf("%s: a server answered after its failpoint", failpoint)
		}
		<-p.done
	}
	for failpoint, zone := range zoneOfFailpoint {
		checkTakeover(t, survivor, guid, failpoint, zone)
	}
	creations := map[string]int{}
	for _, sent := range fixture.recordedRequests() {
		if sent.method == http.MethodPost && sent.status < 300 && sent.cmdlet() == "" {
			for _, zone := range zoneOfFailpoint {
				if string(sent.body) == `{"id":"`+zone+`"}` {
					creations[zone]++
				}
			}
		}
	}
	for failpoint, zone := range zoneOfFailpoint {
		if creations[zone] != 1 {
			t.Errorf("%s: the domain was created %d times, want once", failpoint, creations[zone])
		}
	}
	checkDeletionTakeover(t, fixture, survivor, env, guid)
}

// checkDeletionTakeover kills a server after it has deleted the tenant. It checks that the
// surviving server answers the repeated deletion with a replay.
func checkDeletionTakeover(t *testing.T, fixture *serviceFixture, survivor client, env []string, guid string) {
	t.Helper()
	p, c := fixture.serve(append(env, "TENANTRY_FAILPOINTS=after delete tenant"))
	if _, err := c.tryWithKey("delete", "DELETE", c.ready.APIURL+"/v1/tenants/"+guid, survivor.ready.APIKey, nil); err == nil {
		t.Fatal("a server answered after its failpoint")
	}
	<-p.done
	got, err := survivor.tryWithKey("delete", "DELETE", survivor.ready.APIURL+"/v1/tenants/"+guid, survivor.ready.APIKey, nil)
	if err != nil || got.status != http.StatusOK || got.text("status") != "deleted" || got.text("tenant_id") != guid ||
		got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the repeated deletion is answered %d %s (%v), want a replayed 200", got.status, got.raw, err)
	}
}

// checkTakeover repeats the request of the killed server at the surviving server until it succeeds.
func checkTakeover(t *testing.T, survivor client, guid, failpoint, zone string) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		got, err := survivor.tryWithKey(zone, "POST", survivor.ready.APIURL+"/v1/tenants/"+guid+"/domains", survivor.ready.APIKey, object{"domain": zone})
		switch {
		case err != nil || time.Now().After(deadline):
			t.Fatalf("%s: no success in time (%v), the last answer is %d %s", failpoint, err, got.status, got.raw)
		case got.status == http.StatusOK:
			return
		case got.code() != "idempotency_request_in_progress" || got.header.Get("Retry-After") != "1":
			t.Fatalf("%s: got %d %s, want idempotency_request_in_progress with Retry-After 1", failpoint, got.status, got.raw)
		}
		<-time.After(time.Second)
	}
}

// TestAnswersAreReplayedForADay repeats requests at once, after a kill, and 23 hours later by the
// sandbox's clock. Each response has the same bytes. After 25 hours the operation runs again.
func TestAnswersAreReplayedForADay(t *testing.T) {
	t.Parallel()
	server := newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil)
	tenant := server.ready.Tenants[0].TenantID
	server.control("POST", "/tenants/"+tenant+"/behaviour", noDelays())
	server.control("POST", "/tenants/"+tenant+"/consent", object{"api_key": server.ready.APIKey})
	add := request{method: "POST", path: "/v1/tenants/" + tenant + "/domains", body: object{"domain": server.ready.Zones[0]}, idempotencyKey: "add"}
	remove := request{method: "DELETE", path: "/v1/tenants/" + tenant, idempotencyKey: "remove"}
	send := func(r request) reply {
		t.Helper()
		got, err := server.send(r)
		must(t, err)
		return got
	}
	added := send(add)
	server.checkEqual("added", added.status, http.StatusOK)
	removed := send(remove)
	server.checkEqual("removed", removed.status, http.StatusOK)
	checkReplays := func(when string) {
		t.Helper()
		for repeated, original := range map[*request]reply{&add: added, &remove: removed} {
			got := send(*repeated)
			if got.status != original.status || !bytes.Equal(got.raw, original.raw) || got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: the request %s is answered %d %s, want a replay of %s", when, repeated.idempotencyKey, got.status, got.raw, original.raw)
			}
		}
	}
	checkReplays("at once")
	server.killAndRestart()
	checkReplays("after SIGKILL")
	server.control("POST", "/clock", object{"advance": "23h"})
	checkReplays("after 23 hours")
	server.control("POST", "/clock", object{"advance": "2h"})
	for _, r := range []request{add, remove} {
		got := send(r)
		server.checkEqual(r.idempotencyKey+" after 25 hours", []any{got.status, got.code()}, []any{404, "tenant_not_found"})
	}
}
