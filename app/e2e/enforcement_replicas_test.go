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
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// replicas are two services on one database and one Redis, before one mail
// platform, that enforce when they are told so.
type replicas struct {
	*rig
	redis string
	each  [2]client
	// at is the first one, with the platform's control interface.
	at      caller
	tenants []limited
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{rig: newRig(t, binary(t, release)), redis: testserver.NewRedis(t).URL}
	database, keyset := testserver.Database(t), []byte(nil)
	for i := range r.each {
		data := t.TempDir()
		if i > 0 {
			if err := os.WriteFile(filepath.Join(data, "keyset.json"), keyset, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, ready := startDev(t, r.binary, data, r.env(data, ""), "--no-seed", "--database", database, "--redis", r.redis)
		r.each[i] = client{t, ready}
		var err error
		if keyset, err = os.ReadFile(filepath.Join(data, "keyset.json")); err != nil {
			t.Fatal(err)
		}
	}
	r.at = ownerAt(t, r.each[0].ready)
	r.at.ready.ControlURL = r.url + "/_control"
	return r
}

// limited is one more tenant with mailboxes and a limit.
func (r *replicas) limited(perDay int, locals ...string) {
	r.t.Helper()
	h := r.at.newTenant(nil)
	newAdministrator(r.t, h.admin).connects(r.at.client, r.at.key)
	h.synced()
	zone := fmt.Sprintf("replicas-%d.test", serial.Add(1))
	if err := r.zones.Add(zone, "manual"); err != nil {
		r.t.Fatal(err)
	}
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	h.post(h.path("/mailboxes"), boxes(zone, locals...))
	h.post(h.path("/mailbox-limits"), object{"daily_send_limit": perDay})
	r.tenants = append(r.tenants, limited{h, zone, h.get(h.path("/mailboxes")).objects("mailboxes")})
}

// clock moves every clock there is.
func (r *replicas) clock(to object) {
	r.t.Helper()
	for _, c := range append(r.each[:], r.at.client) {
		c.control("POST", "/clock", to)
	}
}

// atOnce has both enforce at the same time. No rule of a tenant is written
// twice in the same way.
func (r *replicas) atOnce() {
	r.t.Helper()
	before := len(r.requests())
	var all sync.WaitGroup
	for _, c := range slices.Concat(r.each[:], r.each[:]) {
		all.Go(func() { c.control("POST", "/enforcement/run", nil) })
	}
	all.Wait()
	writes := map[string]int{}
	for _, s := range r.requests()[before:] {
		if slices.Contains(ruleWrites, s.cmdlet()) {
			writes[s.cmdlet()+" "+s.path]++
		}
	}
	for write, n := range writes {
		if n != 1 {
			r.t.Errorf("%d times: %s", n, write)
		}
	}
	if len(writes) < len(r.tenants) {
		r.t.Errorf("written was %v", writes)
	}
}

// TestReplicasEnforceTogether: two services that enforce at once block and let
// go as one does, and share what a tenant's trace may be asked.
func TestReplicasEnforceTogether(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	r.clock(object{"now": "2031-03-10T10:00:00Z"})
	r.limited(5, "ada", "max")
	r.limited(5, "ada")
	rounds := 2
	if soak {
		rounds = 10
	}
	for round := range rounds {
		for _, l := range r.tenants {
			l.sends(0, 6+round)
		}
		r.atOnce()
		for _, l := range r.tenants {
			l.blocks(0)
		}
		r.clock(object{"advance": "24h"})
		r.atOnce()
		for _, l := range r.tenants {
			l.blocks()
			want := []string{}
			for n := range round + 1 {
				want = append([]string{"Mailbox unblocked: sent 0, limit 5", fmt.Sprintf("Mailbox blocked: sent %d, limit 5", 6+n)}, want...)
			}
			var got []string
			for _, e := range l.get("/v1/enforcement/events?limit=200&tenant_id=" + l.guid).objects("events") {
				got = append(got, e.text("message"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("round %d: events %q, want %q", round, got, want)
			}
		}
	}
	r.shareTheTrace()
}

// shareTheTrace leaves three pages of the first tenant's trace for five minutes.
// The replicas together ask for no more, and go on with other tenants.
func (r *replicas) shareTheTrace() {
	r.t.Helper()
	counters, err := limiter.Open(r.t.Context(), limiter.Options{URL: r.redis})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = counters.Close() }()
	const left = 3
	whole := ratelimit.Bucket{Key: "budget:microsoft365:tenant:" + r.tenants[0].guid + ":5m0s:sent", Limit: 100, Window: 5 * time.Minute}
	counted := 0
	for {
		v, _ := counters.Take(r.t.Context(), whole)
		if v.Remaining == left {
			break
		}
		if counted++; !v.Allowed || counted > 100 {
			r.t.Fatalf("the trace is counted elsewhere: %+v", v)
		}
	}
	if counted+1 == 100-left {
		r.t.Error("what the replicas asked for is counted elsewhere")
	}
	before := []int{r.traced(0), r.traced(1)}
	for i := range 2 * left {
		r.each[i%2].control("POST", "/enforcement/run", nil)
	}
	if got, other := r.traced(0)-before[0], r.traced(1)-before[1]; got != left || other < 2*left {
		r.t.Errorf("%d pages of the tenant's trace were asked for, and %d of the other's", got, other)
	}
	r.tenants[0].blocks()
}

// traced counts the pages of a tenant's trace that the platform gave, beside which
// it may have asked for another token.
func (r *replicas) traced(n int) (pages int) {
	for _, s := range r.requests() {
		if s.status == http.StatusOK && s.cmdlet() == exchange.GetMessageTrace && strings.Contains(s.path, r.tenants[n].guid) {
			pages++
		}
	}
	return pages
}
