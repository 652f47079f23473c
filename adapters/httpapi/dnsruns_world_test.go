// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// wakeups is a queue that only notes what was asked of it.
type wakeups struct {
	mu  sync.Mutex
	all []ports.Wakeup
}

func (w *wakeups) Wake(_ context.Context, these ...ports.Wakeup) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, these...)
	return nil
}

func (w *wakeups) of(id string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		if one.ID == id {
			n++
		}
	}
	return n
}

// newProvisioning is a world in which one account may provision a domain, with
// the path of the domain's DNS.
func newProvisioning(t *testing.T) (w *world, a *api, path string) {
	t.Helper()
	w = newWorld(t)
	a, path = w.provisionable(t)
	return w, a, path
}

func (w *world) provisionable(t *testing.T) (a *api, path string) {
	t.Helper()
	w.providers.Know(cloud)
	a, path = w.domain(t)
	w.plan(t, w.a, "complete", 0)
	w.platform.DNS.Publish(planned)
	w.connect(t, w.a, planned)
	return a, path
}

func (w *world) plan(t *testing.T, o owner, name string, slots int) {
	t.Helper()
	if _, err := w.store.ChangePlan(t.Context(), o.account.ID, name, slots); err != nil {
		t.Fatal(err)
	}
}

// connect gives the account a connection that reaches the zone.
func (w *world) connect(t *testing.T, o owner, zone string) *fake.DNSProvider {
	t.Helper()
	at := &fake.DNSProvider{}
	at.AddZone(zone)
	at.Put(zone, dns.RRSet{Name: zone, Type: dns.NS, Values: []string{"ns1.fake.test", "ns2.fake.test"}})
	w.providers.Hold("cloudflare", "one", at)
	_, err := w.options.Domains.Connections.Add(t.Context(), dnsconnections.New{Account: o.account.ID, Provider: "cloudflare",
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New("one")}}})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// provisions begins a run and returns the ids of run and job.
func (w *world) provisions(a *api, path string) (run, job string) {
	a.t.Helper()
	got := a.expect(call{method: "POST", path: path + "/provision", key: w.a.key}, 202, "")
	return deep(got.body, "run.id").(string), got.body["jobs"].([]any)[0].(map[string]any)["id"].(string)
}

// begun stores a run with a job, as if the owner had asked for it.
func (w *world) begun(t *testing.T, o owner, d domain.Domain) (run, job string) {
	t.Helper()
	now := time.Now().UTC()
	run, job = ident.New(now, [ident.Entropy]byte([]byte(rand.Text())[:10])), ident.New(now, [ident.Entropy]byte([]byte(rand.Text())[:10]))
	j := provisioning.New(job, run, o.account.ID, d.ID, o.tenant, d.Name, now)
	if err := w.store.CreateRun(t.Context(), provisioning.Run{ID: run, Account: o.account.ID, TotalDomains: 1, CreatedAt: now}, []provisioning.Job{j}); err != nil {
		t.Fatal(err)
	}
	return run, job
}

// brought puts a job where a worker could have brought it.
func (w *world) brought(t *testing.T, id string, change func(*provisioning.Job)) {
	t.Helper()
	j, won, err := w.store.ClaimJob(t.Context(), id, time.Minute, time.Now())
	if err != nil || !won {
		t.Fatal(won, err)
	}
	change(&j)
	if held, err := w.store.SaveJob(t.Context(), j); err != nil || !held {
		t.Fatal(held, err)
	}
}

func (w *world) addTrialKey(t *testing.T, o owner) string {
	t.Helper()
	key, text, err := access.NewKey(rand.Reader, "tny", access.Trial, o.account.ID, "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.AddKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return text.Reveal()
}

func (w *world) tenants(t *testing.T, o owner, change func(*tenant.Tenant)) {
	t.Helper()
	stored, err := w.store.Tenant(t.Context(), o.account.ID, o.tenant)
	if err != nil {
		t.Fatal(err)
	}
	change(&stored)
	if err := w.store.SaveTenant(t.Context(), o.account.ID, stored); err != nil {
		t.Fatal(err)
	}
}
