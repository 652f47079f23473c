// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// rough is a Cloudflare with faults, and a clock that the plugin and the
// simulator share: whoever is told to wait moves it.
type rough struct {
	*world
	ahead atomic.Int64
	clock sync.RWMutex // read by whoever calls: time flies between calls
}

func newRough(t *testing.T) *rough {
	r := &rough{world: newWorld(t)}
	h := newHouse()
	h.budgets = newBudgets(r.now)
	r.make = h.provider
	return r
}

func (r *rough) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// wait moves both clocks. Who waits at the same time as another waits with him.
func (r *rough) wait(until time.Time) {
	r.clock.Lock()
	defer r.clock.Unlock()
	if d := until.Sub(r.now()); d > 0 {
		r.control(r.t, http.MethodPost, "/clock", map[string]string{"advance": d.String()}, nil)
		r.ahead.Add(int64(d))
	}
}

// settled repeats a call as the port says: at once what may have worked, after
// the wait what was throttled. tries is how often it was made; that others took
// the room again after a wait is no failure.
func (r *rough) settled(call func() error) (tries int, err error) {
	failed := 0
	for tries = 1; ; tries++ {
		r.clock.RLock()
		err = call()
		told := r.now()
		r.clock.RUnlock()
		var o *outcome.Error
		errors.As(err, &o)
		switch {
		case o == nil:
			return tries, err
		case o.Kind == outcome.Throttled:
			r.wait(told.Add(o.RetryAfter))
		case failed > 20 || o.Kind != outcome.Unknown && o.Kind != outcome.Broken && o.Kind != outcome.Down:
			return tries, err
		default:
			failed++
		}
	}
}

// freshDomain are the record sets of a domain's mail.
func freshDomain(zone string) []dns.RRSet {
	cname := func(label, target string) dns.RRSet {
		return dns.RRSet{Name: label + "." + zone, Type: dns.CNAME, TTL: 3600, Values: []string{target}}
	}
	return []dns.RRSet{
		text(zone, "MS=ms12345678", "v=spf1 include:spf.protection.outlook.com -all"),
		{Name: zone, Type: dns.MX, TTL: 3600, Values: []string{"0 a-test.r4nd.mx.microsoft"}},
		cname("autodiscover", "autodiscover.outlook.com"), text("_dmarc."+zone, "v=DMARC1; p=none"),
		cname("selector1._domainkey", "one.dkim.mail.microsoft"), cname("selector2._domainkey", "two.dkim.mail.microsoft"),
	}
}

// provision does all that a fresh domain needs, and says whether it went
// without a repetition.
func (r *rough) provision(ctx context.Context, p sdk.DNSProvider, name string) (smooth bool, err error) {
	var zone dns.Zone
	var now, made []dns.RRSet
	looked, err := r.settled(func() (err error) { zone, err = p.Zone(ctx, name); return err })
	if err != nil {
		return false, err
	}
	listed, err := r.settled(func() (err error) { now, err = p.Records(ctx, zone); return err })
	if err != nil {
		return false, err
	}
	var changes []dns.Change
	for _, s := range freshDomain(name) {
		changes = append(changes, dns.Change{Before: dns.Find(now, s.Name, s.Type), After: s})
	}
	wrote, err := r.settled(func() (err error) { made, err = p.Apply(ctx, zone, changes); return err })
	if err == nil && len(made) != len(changes) {
		err = fmt.Errorf("%d sets were made", len(made))
	}
	return looked+listed+wrote == 3, err
}

// TestFaults: 300 domains get their records though Cloudflare throttles, fails
// on every fifth write and loses answers after the effect. No record is there
// twice and no limit is exceeded.
func TestFaults(t *testing.T) {
	const domains, workers, pause = 300, 8, 7
	r := newRough(t)
	for i := range domains / 4 {
		r.fault(t, map[string]any{"kind": "status", "status": 500, "times": 1, "skip": 4 + 5*i, "operation": "recordBatch"})
	}
	throttled := 0
	for i, operation := range []string{"zoneList", "recordList", "recordBatch", "recordBatch", "recordList"} {
		r.fault(t, map[string]any{"kind": "status", "status": 429, "retry_after": pause, "times": 1, "skip": 11 + 40*i, "operation": operation})
		throttled++
	}
	r.fault(t, map[string]any{"kind": "drop_after", "times": 20, "skip": 17, "operation": "recordBatch"})
	r.fault(t, map[string]any{"kind": "drop_before", "times": 5, "skip": 60, "operation": "recordBatch"})
	var zones []string
	for range domains {
		zones = append(zones, r.NewZone(t))
	}
	r.control(t, http.MethodDelete, "/calls", nil, nil)
	smooth := r.provisionAll(t, zones, workers)
	for _, zone := range zones {
		r.holds(t, zone)
	}
	var calls []simulate.Entry
	r.control(t, http.MethodGet, "/calls", nil, &calls)
	checkLimits(t, calls, throttled)
	checkEach(t, calls, r.ids(t, zones), smooth)
}

// TestPauses: nobody comes back before the time. One at a time, since what has
// left already when Cloudflare asks for a pause comes within it.
func TestPauses(t *testing.T) {
	const pause = 7
	r := newRough(t)
	for i, operation := range []string{"zoneList", "recordList", "recordBatch"} {
		r.fault(t, map[string]any{"kind": "status", "status": 429, "retry_after": pause, "times": 1, "skip": i, "operation": operation})
	}
	r.provisionAll(t, []string{r.NewZone(t), r.NewZone(t), r.NewZone(t)}, 1)
	var calls []simulate.Entry
	r.control(t, http.MethodGet, "/calls", nil, &calls)
	checkPauses(t, calls, pause*time.Second, 3)
}

func (r *rough) provisionAll(t *testing.T, zones []string, workers int) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	smooth := map[string]bool{}
	work := make(chan string)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for zone := range work {
				ok, err := r.provision(t.Context(), r.Provider(), zone)
				if err != nil {
					t.Errorf("%s: %v", zone, err)
				}
				mu.Lock()
				smooth[zone] = ok
				mu.Unlock()
			}
		})
	}
	for _, zone := range zones {
		work <- zone
	}
	close(work)
	all.Wait()
	return smooth
}
