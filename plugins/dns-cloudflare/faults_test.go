// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// faultyFixture is a fixture for tests that plan faults. The plugin and the simulator have clocks
// that move together. Instead of waiting, a worker advances both clocks.
type faultyFixture struct {
	*fixture
	limit       int          // maximum number of calls in each window
	clockOffset atomic.Int64 // nanoseconds
	clockMu     sync.RWMutex // held for reading during a call, so that the clock moves only between calls
}

func newFaultyFixture(t *testing.T) *faultyFixture {
	fixture := &faultyFixture{fixture: newFixture(t), limit: maxCalls / 2}
	if !soak.Enabled() {
		fixture.limit = maxCalls / 5
	}
	state := newTestState(fixture.now)
	state.budgets.limit = fixture.limit
	fixture.newProvider = state.provider
	return fixture
}

func (f *faultyFixture) now() time.Time { return time.Now().Add(time.Duration(f.clockOffset.Load())) }

// advanceTo sets both clocks to until. It does nothing if the clocks are already later.
func (f *faultyFixture) advanceTo(until time.Time) {
	f.clockMu.Lock()
	defer f.clockMu.Unlock()
	if d := until.Sub(f.now()); d > 0 {
		f.control(f.t, http.MethodPost, "/clock", map[string]string{"advance": d.String()}, nil)
		f.clockOffset.Add(int64(d))
	}
}

// retry repeats a call until it succeeds, like the callers of the port. It repeats a throttled call
// after the wait, and an Unknown, Broken or Down call at once. It stops at any other error, and
// after more than 20 failures. A throttled call does not count as a failure. tries is the number of
// times that retry ran call.
func (f *faultyFixture) retry(call func() error) (tries int, err error) {
	failures := 0
	for tries = 1; ; tries++ {
		f.clockMu.RLock()
		err = call()
		answeredAt := f.now()
		f.clockMu.RUnlock()
		result := sdk.OutcomeOf(err)
		switch {
		case result.Kind == 0:
			return tries, err
		case result.Kind == sdk.Throttled:
			f.advanceTo(answeredAt.Add(result.RetryAfter))
		case failures > 20 || result.Kind != sdk.Unknown && result.Kind != sdk.Broken && result.Kind != sdk.Down:
			return tries, err
		default:
			failures++
		}
	}
}

// recordsOfNewDomain returns the record sets that a domain needs for mail.
func recordsOfNewDomain(zone string) []sdk.RRSet {
	cnameSet := func(label, target string) sdk.RRSet {
		return sdk.RRSet{Name: label + "." + zone, Type: sdk.CNAME, TTL: 3600, Values: []string{target}}
	}
	return []sdk.RRSet{
		txtSet(zone, "MS=ms12345678", "v=spf1 include:spf.protection.outlook.com -all"),
		{Name: zone, Type: sdk.MX, TTL: 3600, Values: []string{"0 a-test.r4nd.mx.microsoft"}},
		cnameSet("autodiscover", "autodiscover.outlook.com"), txtSet("_dmarc."+zone, "v=DMARC1; p=none"),
		cnameSet("selector1._domainkey", "one.dkim.mail.microsoft"), cnameSet("selector2._domainkey", "two.dkim.mail.microsoft"),
	}
}

// provision writes the records of recordsOfNewDomain. withoutRetry is true if provision repeated no
// call.
func (f *faultyFixture) provision(ctx context.Context, p sdk.DNSProvider, name string) (withoutRetry bool, err error) {
	var zone sdk.Zone
	var current, written []sdk.RRSet
	zoneTries, err := f.retry(func() (err error) { zone, err = p.Zone(ctx, name); return err })
	if err != nil {
		return false, err
	}
	recordsTries, err := f.retry(func() (err error) { current, err = p.Records(ctx, zone); return err })
	if err != nil {
		return false, err
	}
	var changes []sdk.Change
	for _, set := range recordsOfNewDomain(name) {
		changes = append(changes, sdk.Change{Before: sdk.FindSet(current, set.Name, set.Type), After: set})
	}
	applyTries, err := f.retry(func() (err error) { written, err = p.Apply(ctx, zone, changes); return err })
	if err == nil && len(written) != len(changes) {
		err = fmt.Errorf("Apply returned %d record sets, want %d", len(written), len(changes))
	}
	return zoneTries+recordsTries+applyTries == 3, err
}

// TestManyDomainsSurviveFaults checks that many domains get their records although Cloudflare
// throttles, fails many writes, and loses requests and answers of writes. No record may exist
// twice, and no limit may be exceeded. The domains need more calls than the plugin's limit allows
// in one window. With TENANTRY_SOAK, the test has 150 domains, and the plugin's limit is half of
// Cloudflare's limit. Otherwise it has 60 domains and a fifth of Cloudflare's limit. The simulator
// counts calls by the real clock, so Cloudflare's limit applies to all calls of the test together.
func TestManyDomainsSurviveFaults(t *testing.T) {
	const pauseSeconds = 7
	fixture := newFaultyFixture(t)
	domains := fixture.limit / 4
	workers := min(8, domains/15) // a pause makes every worker repeat a call, so few domains need few workers
	// The values of skip distribute the faults over the calls of the test.
	for i := range domains / 4 {
		fixture.planFault(t, map[string]any{"kind": "status", "status": 500, "times": 1, "skip": 4 + 5*i, "operation": "recordBatch"})
	}
	planned429s := 0
	for i, operation := range []string{"zoneList", "recordList", "recordBatch", "recordBatch", "recordList"} {
		fixture.planFault(t, map[string]any{"kind": "status", "status": 429, "retry_after": pauseSeconds, "times": 1, "skip": 11 + domains*i/8, "operation": operation})
		planned429s++
	}
	fixture.planFault(t, map[string]any{"kind": "drop_after", "times": domains / 15, "skip": 17, "operation": "recordBatch"})
	fixture.planFault(t, map[string]any{"kind": "drop_before", "times": domains / 60, "skip": domains / 5, "operation": "recordBatch"})
	var zones []string
	for range domains {
		zones = append(zones, fixture.NewZone(t))
	}
	fixture.control(t, http.MethodDelete, "/calls", nil, nil)
	withoutRetry := fixture.provisionAll(t, zones, workers)
	for _, zone := range zones {
		fixture.checkRecords(t, zone)
	}
	var calls []simulate.Entry
	fixture.control(t, http.MethodGet, "/calls", nil, &calls)
	fixture.checkLimits(t, calls, planned429s)
	checkCallsPerDomain(t, calls, fixture.zoneIDs(t, zones), withoutRetry)
}

// TestRetryAfterIsObserved checks that after a 429 no call is made before the pause is over. It
// uses one worker, because calls of further workers could already be in flight.
func TestRetryAfterIsObserved(t *testing.T) {
	const pauseSeconds = 7 // any pause that is longer than the time between two calls
	fixture := newFaultyFixture(t)
	for i, operation := range []string{"zoneList", "recordList", "recordBatch"} {
		fixture.planFault(t, map[string]any{"kind": "status", "status": 429, "retry_after": pauseSeconds, "times": 1, "skip": i, "operation": operation})
	}
	fixture.provisionAll(t, []string{fixture.NewZone(t), fixture.NewZone(t), fixture.NewZone(t)}, 1)
	var calls []simulate.Entry
	fixture.control(t, http.MethodGet, "/calls", nil, &calls)
	checkPauses(t, calls, pauseSeconds*time.Second, 3)
}

// provisionAll provisions the zones with this number of workers. The result is true for each zone
// for which no call was repeated.
func (f *faultyFixture) provisionAll(t *testing.T, zones []string, workers int) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	withoutRetry := map[string]bool{}
	work := make(chan string)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for zone := range work {
				neededNoRetry, err := f.provision(t.Context(), f.Provider(), zone)
				if err != nil {
					t.Errorf("provisioning %s: %v", zone, err)
				}
				mu.Lock()
				withoutRetry[zone] = neededNoRetry
				mu.Unlock()
			}
		})
	}
	for _, zone := range zones {
		work <- zone
	}
	close(work)
	running.Wait()
	return withoutRetry
}

// checkRecords checks, without the plugin, that the zone has each record of recordsOfNewDomain
// exactly once.
func (f *faultyFixture) checkRecords(t *testing.T, zone string) {
	t.Helper()
	want := map[string]bool{}
	for _, set := range recordsOfNewDomain(zone) {
		for _, value := range set.Values {
			want[set.Name+" "+string(set.Type)+" "+value] = true
		}
	}
	for _, set := range f.Held(t, zone) {
		for _, value := range set.Values {
			record := set.Name + " " + string(set.Type) + " " + value
			if !want[record] {
				t.Errorf("%s exists twice or is not wanted", record)
			}
			delete(want, record)
		}
	}
	for record := range want {
		t.Errorf("%s is missing", record)
	}
}

// checkLimits checks that there are at least f.limit calls in total, and at most f.limit calls in
// each window. want429s answers must be 429, and at least f.limit/20 answers must be 500. Not every
// planned 500 must happen, because the number of writes depends on the retries.
func (f *faultyFixture) checkLimits(t *testing.T, calls []simulate.Entry, want429s int) {
	t.Helper()
	got429s, got500s := 0, 0
	for i, entry := range calls {
		if i >= f.limit && entry.At.Sub(calls[i-f.limit].At) < rateWindow {
			t.Fatalf("call %d is less than five minutes after call %d, want at most %d calls in five minutes", i, i-f.limit, f.limit)
		}
		switch entry.Status {
		case http.StatusTooManyRequests:
			got429s++
		case http.StatusInternalServerError:
			got500s++
		}
	}
	if got429s != want429s || got500s < f.limit/20 {
		t.Errorf("%d answers of 429, want %d; %d answers of 500, want at least %d", got429s, want429s, got500s, f.limit/20)
	}
	if len(calls) < f.limit {
		t.Errorf("%d calls, want at least the limit of %d", len(calls), f.limit)
	}
}

// checkPauses checks that after each answer of 429 there is no call until the pause is over.
// want429s answers must be 429.
func checkPauses(t *testing.T, calls []simulate.Entry, pause time.Duration, want429s int) {
	t.Helper()
	got429s := 0
	for i, entry := range calls {
		if entry.Status != http.StatusTooManyRequests {
			continue
		}
		got429s++
		if i+1 < len(calls) && calls[i+1].At.Before(entry.At.Add(pause)) {
			t.Errorf("the next call came %s after a 429, want at least %s", calls[i+1].At.Sub(entry.At), pause)
		}
	}
	if got429s != want429s {
		t.Errorf("%d answers of 429, want %d", got429s, want429s)
	}
}

// zoneIDs returns the ids of the zones, keyed by name. The paths of recorded calls contain the ids.
func (f *faultyFixture) zoneIDs(t *testing.T, zones []string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, name := range zones {
		_, err := f.retry(func() error {
			zone, err := f.Provider().Zone(t.Context(), name)
			ids[name] = zone.ID
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// checkCallsPerDomain checks the number of calls for each domain that needed no repeated call. It
// counts the calls with the id of the zone in their paths, and adds 1 for the call that finds the
// zone. At least a sixth of the domains must need no repeated call.
func checkCallsPerDomain(t *testing.T, calls []simulate.Entry, ids map[string]string, withoutRetry map[string]bool) {
	t.Helper()
	callsByID := map[string]int{}
	for _, entry := range calls {
		if rest, ok := strings.CutPrefix(entry.Path, "/client/v4/zones/"); ok {
			id, _, _ := strings.Cut(rest, "/")
			callsByID[id]++
		}
	}
	undisturbed := 0
	for name, neededNoRetry := range withoutRetry {
		if neededNoRetry {
			undisturbed++
			if got := 1 + callsByID[ids[name]]; got > 5 {
				t.Errorf("the new domain %s needed %d calls, want at most 5", name, got)
			}
		}
	}
	if undisturbed < len(withoutRetry)/6 {
		t.Errorf("only %d domains were provisioned without a repeated call, want at least %d", undisturbed, len(withoutRetry)/6)
	}
}
