// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
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
// simulator share. A worker that has to wait moves the clock instead.
type rough struct {
	*world
	limit int // calls in any window
	ahead atomic.Int64
	clock sync.RWMutex // held for reading during a call, so that the clock moves between calls
}

func newRough(t *testing.T) *rough {
	r := &rough{world: newWorld(t), limit: limit}
	if os.Getenv("TENANTRY_SOAK") == "" {
		r.limit /= 5
	}
	h := patientHouse(r.now)
	h.budgets.limit = r.limit
	r.make = h.provider
	return r
}

func (r *rough) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// wait moves both clocks to until, unless another worker has moved them already.
func (r *rough) wait(until time.Time) {
	r.clock.Lock()
	defer r.clock.Unlock()
	if d := until.Sub(r.now()); d > 0 {
		r.control(r.t, http.MethodPost, "/clock", map[string]string{"advance": d.String()}, nil)
		r.ahead.Add(int64(d))
	}
}

// settled repeats a call until it succeeds, as the port says. It repeats a
// throttled call after the wait and any other failed call at once. tries counts
// the calls. A call that is throttled again after its wait is not a failure.
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

// TestFaults checks that many domains get their records though Cloudflare
// throttles, fails on every fifth write and loses answers after the effect. No
// record is there twice and no limit is exceeded. The domains cost more calls
// than the limit allows: 300 domains under Cloudflare's own limit when
// TENANTRY_SOAK is set, else a fifth of both.
func TestFaults(t *testing.T) {
	const pause = 7
	r := newRough(t)
	domains := r.limit / 4
	workers := min(8, domains/15) // each pause disturbs a domain of every worker
	for i := range domains / 4 {
		r.fault(t, map[string]any{"kind": "status", "status": 500, "times": 1, "skip": 4 + 5*i, "operation": "recordBatch"})
	}
	throttled := 0
	for i, operation := range []string{"zoneList", "recordList", "recordBatch", "recordBatch", "recordList"} {
		r.fault(t, map[string]any{"kind": "status", "status": 429, "retry_after": pause, "times": 1, "skip": 11 + domains*i/8, "operation": operation})
		throttled++
	}
	r.fault(t, map[string]any{"kind": "drop_after", "times": domains / 15, "skip": 17, "operation": "recordBatch"})
	r.fault(t, map[string]any{"kind": "drop_before", "times": domains / 60, "skip": domains / 5, "operation": "recordBatch"})
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
	r.checkLimits(t, calls, throttled)
	checkEach(t, calls, r.ids(t, zones), smooth)
}

// TestPauses checks that after a 429 no call is made before the pause is over.
// One worker makes the calls, because calls of others may be under way already.
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
