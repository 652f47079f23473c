// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// lagMS returns how far the replicas lag. A soak draws it.
func lagMS(r *rand.Rand) int {
	if soak.On() {
		return 200 + r.IntN(8000)
	}
	return 1500
}

// TestReplicasOfThePlatformDisagree takes a tenant through all jobs while reads at Graph and Exchange
// return the state of some time ago: lists, reads of one object, all reads, or every second read. So
// reads after writes miss the writes. Everything is created once and has one password, and no row is
// deleted. A soak does so for each kind of read.
func TestReplicasOfThePlatformDisagree(t *testing.T) {
	t.Parallel()
	c, random := privateSandbox(t), soak.Rand(t)
	for _, answers := range soak.Sample(t, []string{"lists", "objects", "all", "alternate"}, 2) {
		t.Run(answers, func(t *testing.T) {
			c := c.withT(t)
			c.control("DELETE", "/calls", nil)
			lagging := func(ms int, answers string) object {
				replicas := object{"lag_ms": ms, "answers": answers}
				return object{"graph_replicas": replicas, "exchange_replicas": replicas}
			}
			j := newJourney(c, nil, lagging(lagMS(random), answers))
			j.onboard()
			// A sync beside other requests can have missed a new mailbox, which is then hidden until the next
			// one.
			waitForAll := func() {
				j.eventually("all mailboxes are listed", func() bool {
					j.syncFully()
					return len(j.mailboxIDs()) == 4
				})
			}
			waitForAll()
			renamed := j.mailboxIDs()["ada@"+j.zones[0]]
			j.rename(renamed)
			waitForAll()

			// Until the clock moves, the lagging replica does not show the next mailbox. Its creation ends
			// because only lists lag. A sync that misses it must not delete its row, and a repeated request
			// must not set a second password.
			j.setBehaviour(lagging(600_000, "lists"))
			j.step(func() { j.provision(j.zones[1], "grete") })
			j.setBehaviour(lagging(600_000, answers))
			ids := j.mailboxIDs()
			if len(ids) != 5 {
				t.Fatalf("stored are the mailboxes %v", ids)
			}
			for range 2 {
				j.step(j.syncFully)
			}
			for email := range ids {
				local, zone, _ := strings.Cut(email, "@")
				got := j.call("POST", j.path("/mailboxes"), mailboxesBody(zone, local))
				if got.code() == "provider_timeout" && local == "grete" {
					continue // no read shows the mailbox
				}
				checkValues(t, got.object, object{"created_count": 0, "exists_count": 1})
			}
			j.checkCreatedOnce()
			j.setBehaviour(lagging(lagMS(random), answers))
			c.control("POST", "/clock", object{"advance": "601s"})
			j.limit(ids)
			j.eventually("a sync sees all changes", func() bool {
				j.syncFully()
				return maps.Equal(j.mailboxIDs(), ids) && j.verifiedDomains() == 2 &&
					j.get(j.path("/mailboxes/"+renamed+"/usage")).text("display_name") == "Ada Lovelace"
			})
			checkValues(t, j.get(j.path("/mailboxes/"+renamed+"/usage")).object, object{"daily_send_limit": 7})
			j.remove(ids)
		})
	}
}

// checkCreatedOnce checks that the platform created each object once, and that each account got one
// password.
func (j *journey) checkCreatedOnce() {
	j.t.Helper()
	done, passwords := j.executed(), 0
	checkCounts := map[string]int{"domain.create": 2, "domain.verify": 2, "New-Mailbox": 5}
	for operation, n := range done {
		if strings.HasPrefix(operation, "user.update ") {
			passwords++
			checkCounts[operation] = 1
		}
		if want, counted := checkCounts[operation]; counted && n != want {
			j.t.Errorf("%s was done %d times, want %d", operation, n, want)
		}
	}
	if passwords != 5 {
		j.t.Errorf("%d accounts got a password, want 5", passwords)
	}
}

// verifiedDomains returns how many of the stored domains are verified.
func (j *journey) verifiedDomains() (n int) {
	j.t.Helper()
	for _, d := range j.get(j.path("/domains")).objects("domains") {
		if d["is_verified"] == true {
			n++
		}
	}
	return n
}
