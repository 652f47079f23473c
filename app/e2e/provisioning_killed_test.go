// SPDX-License-Identifier: Apache-2.0

package e2e

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

// perAccount is how many domains an account has here, all in its one tenant.
const perAccount = 10

func newMultitude(t *testing.T, m *mortal, size int) *multitude {
	t.Helper()
	c := &multitude{mortal: m}
	for range size / perAccount {
		h := caller{client: m.client}.newCaller(nil).automatic().connected(nil)
		for range perAccount {
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

// rescue is the time in which another worker takes over the jobs of a killed one.
const rescue = 90 * time.Second

// settle waits until every run has ended. A soak checks that each run that was open
// at the last death has gone on within rescue.
func (c *multitude) settle(within time.Duration) {
	c.t.Helper()
	died, rescued := time.Now(), !soak
	for {
		open := c.open()
		if late := time.Since(died) > rescue; late && !rescued {
			rescued = true
			for _, run := range open {
				if at, _ := time.Parse(time.RFC3339, run.text("updated_at")); at.Before(died) {
					c.t.Errorf("nothing has happened for %s since the last death: %v", rescue, run)
				}
			}
		}
		if len(open) == 0 {
			break
		}
		if time.Since(died) > within {
			c.t.Fatalf("open after %s: %v", within, open)
		}
		<-time.After(500 * time.Millisecond)
	}
	c.t.Logf("all ended %s after the last death", time.Since(died).Round(time.Second))
	for _, d := range c.domains {
		if run := c.now(d).get("/v1/dns/provisioning-runs/" + d.runs); run.at("run.status") != "completed" {
			c.t.Errorf("%s: %s", d.zone, run.raw)
		}
	}
}

// open lists the runs that have not ended.
func (c *multitude) open() (all []object) {
	c.t.Helper()
	for i := 0; i < len(c.domains); i += perAccount {
		all = append(all, c.now(c.domains[i]).get("/v1/dns/provisioning-runs?active_only=true&limit=100").objects("runs")...)
	}
	return all
}

// TestDomainsOverKills provisions many domains at once while service and plugins
// are killed and the world refuses, breaks and loses answers. All of them end
// as they should, and no record is there twice.
func TestDomainsOverKills(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		overKills(t, &mortal{}, 10, func() {})
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

// overKills provisions so many domains over a few deaths, or what soak asks for:
// one every 2 s for a minute. crash ends the database once, between two deaths of
// the service, where it has a server.
func overKills(t *testing.T, m *mortal, size int, crash func()) {
	deaths := 2
	if soak {
		size, deaths = 200, 30
	}
	m.client, m.binary, m.data = client{t: t}, binary(t, release), t.TempDir()
	m.start()
	c := newMultitude(t, m, size)
	random := seeded(t)
	c.begin()
	for death := range deaths {
		c.disturb(random)
		<-time.After(time.Second)
		if death == 1 {
			crash()
		}
		<-time.After(time.Second)
		c.killed()
	}
	c.control("DELETE", "/faults", nil)
	c.settle(hang)
	for _, d := range c.domains {
		c.now(d).provisioned(d.zone)
	}
}
