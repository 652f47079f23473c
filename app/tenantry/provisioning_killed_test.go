// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// automated is a domain that is being provisioned, and the account that holds it.
type automated struct {
	of             holding
	zone, id, runs string
}

// multitude is many domains that are provisioned in one sandbox.
type multitude struct {
	*mortal
	domains []automated
}

// perTenant is how many domains a tenant has here, perAccount how many tenants an account.
const perTenant, perAccount = 10, 2

func newMultitude(t *testing.T, m *mortal, size int) *multitude {
	t.Helper()
	c := &multitude{mortal: m}
	var of caller
	for i := range size / perTenant {
		if i%perAccount == 0 {
			of = caller{client: m.client}.newCaller(nil).automatic()
		}
		h := of.connected(nil)
		for range perTenant {
			zone, id := h.hosted()
			c.domains = append(c.domains, automated{of: h, zone: zone, id: id})
		}
	}
	return c
}

// now is the domain's account at the sandbox as it was started last.
func (c *multitude) now(d automated) holding {
	h := d.of
	h.client = c.client
	return h
}

// begin asks for each domain's provisioning.
func (c *multitude) begin() {
	c.t.Helper()
	for i, d := range c.domains {
		got := c.now(d).expect("POST", "/v1/domains/"+d.id+"/dns/provision", nil, http.StatusAccepted, "")
		c.domains[i].runs = fmt.Sprint(got.at("run.id"))
	}
}

// disturb plans what outside worlds do: they refuse for a while, break, and
// lose answers before and after their work.
func (c *multitude) disturb(random *rand.Rand) {
	c.t.Helper()
	for _, provider := range []string{"cloudflare", "microsoft365"} {
		for _, fault := range []object{
			{"kind": "status", "status": 429, "retry_after": 1}, {"kind": "status", "status": 500},
			{"kind": "drop_before", "writes_only": true}, {"kind": "drop_after", "writes_only": true},
		} {
			fault["provider"], fault["times"], fault["skip"] = provider, 1+random.IntN(2), random.IntN(10)
			c.control("POST", "/faults", fault)
		}
		if random.IntN(2) == 0 {
			c.control("POST", "/plugins/"+provider+"/kill", nil)
		}
	}
}

// settle waits until every run has ended, at most for the time in which jobs
// of a killed worker go on.
func (c *multitude) settle(within time.Duration) {
	c.t.Helper()
	open := c.domains
	for deadline := time.Now().Add(within); len(open) > 0; {
		var left []automated
		for _, d := range open {
			run := c.now(d).get("/v1/dns/provisioning-runs/" + d.runs)
			if run.at("run.status") == "completed" {
				continue
			}
			left = append(left, d)
			if time.Now().After(deadline) {
				c.t.Errorf("%s after %s: %s", d.zone, within, run.raw)
			}
		}
		if open = left; time.Now().After(deadline) {
			return
		}
		<-time.After(500 * time.Millisecond)
	}
}

// TestDomainsOverKills provisions many domains at once while service and plugins
// are killed and the world refuses, breaks and loses answers. All of them end
// as they should, and no record is there twice.
func TestDomainsOverKills(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		overKills(t, &mortal{}, 20, func() {})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server, err := testserver.StartPostgres(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
		overKills(t, &mortal{flags: []string{"--database", server.URL}}, 10, func() {
			if err := server.Crash(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// overKills provisions so many domains, or what soak asks for. crash ends the
// database once, between two deaths of the service, where it has a server.
func overKills(t *testing.T, m *mortal, size int, crash func()) {
	during := 8 * time.Second
	if soak {
		size, during = 200, time.Minute
	}
	m.client, m.binary, m.data = client{t: t}, binary(t, release), t.TempDir()
	m.start()
	c := newMultitude(t, m, size)
	random := seeded(t)
	c.begin()
	kills, began := 0, time.Now()
	for ; time.Since(began) < during; kills++ {
		c.disturb(random)
		<-time.After(time.Second)
		if kills == 1 {
			crash()
		}
		<-time.After(time.Second)
		c.killed()
	}
	within := 90*time.Second + time.Duration(size/5)*time.Second
	if soak {
		// All accounts of a sandbox share a token of Cloudflare's, which may make
		// 1,200 calls in 5 minutes: less than half of what 200 domains take.
		within = 25 * time.Minute
	}
	c.settle(within)
	for _, d := range c.domains {
		c.now(d).provisioned(d.zone)
	}
	t.Logf("%d domains over %d kills", size, kills)
}
