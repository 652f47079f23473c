// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestAnotherServerTakesOver: a server on PostgreSQL dies with a key in its
// hands, before and after the effect. Another one says that the request runs
// until the lease is over, then goes on, and nothing is done twice.
func TestAnotherServerTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, failpoints))
	env := r.env(t.TempDir(), testserver.Database(t))
	r.command(env, "migrate")
	_, key := r.account(env, "owner@example.com", "complete", 0)
	_, heir := r.serve(env)
	heir.ready.APIKey = key
	guid, admin := r.tenant(heir)
	newAdministrator(t, admin).connects(heir, key)
	if got := heir.api("POST", "/v1/tenants/"+guid+"/sync", nil); got.text("status") != "completed" {
		t.Fatalf("sync: %s", got.raw)
	}
	points := map[string]string{"idempotency.after-claim": "", "domains.before-add": "", "domains.after-add": "", "idempotency.before-finish": ""}
	for point := range points {
		points[point] = fmt.Sprintf("takeover-%d.test", serial.Add(1))
		p, c := r.serve(append(env, "TENANTRY_FAILPOINTS="+point))
		_, err := c.tryAs(point, "POST", c.ready.APIURL+"/v1/tenants/"+guid+"/domains", key, object{"domain": points[point]})
		if err == nil {
			t.Fatalf("%s: a server that should have died answered", point)
		}
		<-p.done
	}
	for point, zone := range points {
		inherited(t, heir, guid, point, zone)
	}
	made := map[string]int{}
	for _, s := range r.requests() {
		if s.method == http.MethodPost && s.status < 300 && s.cmdlet() == "" {
			for _, zone := range points {
				if string(s.body) == `{"id":"`+zone+`"}` {
					made[zone]++
				}
			}
		}
	}
	for point, zone := range points {
		if made[zone] != 1 {
			t.Errorf("%s: the domain was made %d times", point, made[zone])
		}
	}
	deletionInherited(t, r, heir, env, guid)
}

// deletionInherited: what a server deleted before it died is answered at once
// by another one, which was never asked to delete it.
func deletionInherited(t *testing.T, r *rig, heir client, env []string, guid string) {
	t.Helper()
	p, c := r.serve(append(env, "TENANTRY_FAILPOINTS=tenants.after-delete"))
	if _, err := c.tryAs("delete", "DELETE", c.ready.APIURL+"/v1/tenants/"+guid, heir.ready.APIKey, nil); err == nil {
		t.Fatal("a server that should have died answered")
	}
	<-p.done
	got, err := heir.tryAs("delete", "DELETE", heir.ready.APIURL+"/v1/tenants/"+guid, heir.ready.APIKey, nil)
	if err != nil || got.status != http.StatusOK || got.text("status") != "deleted" || got.text("tenant_id") != guid ||
		got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v, %d %s", err, got.status, got.raw)
	}
}

// inherited sends the request of a dead server again until it is answered.
func inherited(t *testing.T, heir client, guid, point, zone string) {
	t.Helper()
	for deadline := time.Now().Add(hang); ; {
		got, err := heir.tryAs(point, "POST", heir.ready.APIURL+"/v1/tenants/"+guid+"/domains", heir.ready.APIKey, object{"domain": zone})
		switch {
		case err != nil || time.Now().After(deadline):
			t.Fatalf("%s: %v, at last %d %s", point, err, got.status, got.raw)
		case got.status == http.StatusOK:
			return
		case got.code() != "idempotency_request_in_progress" || got.header.Get("Retry-After") != "1":
			t.Fatalf("%s: %d %s", point, got.status, got.raw)
		}
		<-time.After(time.Second)
	}
}
