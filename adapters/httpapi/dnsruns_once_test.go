// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// TestManyProvisionsAtOnce: of many requests for one domain, each with its own
// key, one makes a job.
func TestManyProvisionsAtOnce(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") },
		"postgres": testserver.Database,
	} {
		t.Run(name, func(t *testing.T) { manyProvisions(t, newWorldIn(t, database(t))) })
	}
}

func manyProvisions(t *testing.T, w *world) {
	a, path := w.provisionable(t)
	var all sync.WaitGroup
	statuses := make([]int, 50)
	for i := range statuses {
		all.Go(func() {
			r, err := http.DefaultClient.Do(call{method: "POST", path: path + "/provision", key: w.a.key}.request(t, a.server.URL))
			if err != nil {
				t.Error(err)
				return
			}
			_ = r.Body.Close()
			statuses[i] = r.StatusCode
		})
	}
	all.Wait()
	count := map[int]int{}
	for _, s := range statuses {
		count[s]++
	}
	if count[202] != 1 || count[409] != 49 {
		t.Errorf("answered %v", count)
	}
	list := a.expect(call{method: "GET", path: runs, key: w.a.key}, 200, "")
	if list.body["count"] != 1.0 || len(w.woken.all) != 1 || w.woken.all[0].Account != w.a.account.ID {
		t.Errorf("%s, woken %v", list.raw, w.woken.all)
	}
}

// TestProvisioningHappensOnce: what is true of every write with a key is true
// of those that queue jobs, also with a key of the old form.
func TestProvisioningHappensOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		ask    func(w *world, a *api, path string) string
	}{
		{"provision", 202, func(_ *world, _ *api, path string) string { return path + "/provision" }},
		{"retry", 200, func(w *world, a *api, path string) string {
			_, job := w.provisions(a, path)
			w.brought(a.t.(*testing.T), job, func(j *provisioning.Job) {
				j.Status, j.Stage, j.Required, j.Message = provisioning.ActionRequired, provisioning.StagePlan, dns.ReadUnreliable, "Nobody answers."
			})
			return jobs + job + "/retry"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, a, path := newProvisioning(t)
			once := call{method: "POST", path: tt.ask(w, a, path), key: w.addTrialKey(t, w.a), headers: map[string]string{"Idempotency-Key": "one"}}
			theirs := once
			theirs.path, theirs.key = "/v1/tenants/"+string(w.b.tenant)+"/sync", w.b.key
			a.expect(theirs, 200, "") // the same key of another account
			first := a.expect(once, tt.status, "")
			woken := len(w.woken.all)
			if again := a.expect(once, tt.status, ""); again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("X-RateLimit-Bucket") != "read" {
				t.Errorf("not replayed: %v %s", again.header, again.raw)
			}
			other := once
			other.path += "?x=1"
			a.expect(other, 409, "idempotency_key_conflict")
			rotated := a.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: once.key}, 200, "").body["api_key"].(string)
			a.expect(once, 401, "invalid_api_key")
			once.key = rotated
			if again := a.expect(once, tt.status, ""); again.raw != first.raw {
				t.Errorf("the new key gets %s", again.raw)
			}
			w.lapse(t, w.a)
			a.expect(once, 402, "no_api_plan")
			if list, err := w.store.Runs(t.Context(), w.a.account.ID, ports.RunQuery{Limit: 100}); err != nil || len(list) != 1 || len(w.woken.all) != woken {
				t.Errorf("%d runs, %d wake-ups of %d, %v", len(list), len(w.woken.all), woken, err)
			}
		})
	}
}
