// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// dnsEnvironment is the environment in which Test runs dnsChecks and the contract suite of a DNS
// provider: the plugin, its simulator, and the zones (see zoneServer). It implements
// contract.DNSProviderEnv.
type dnsEnvironment struct {
	*environment
	zones *zoneServer
	t     T
}

func newDNSEnvironment(t T, e *environment) *dnsEnvironment {
	t.Helper()
	zones := newZoneServer(t, e.description.Name)
	e.start(t, zones.url)
	e.isNotHTTP = !e.speaksHTTP()
	return &dnsEnvironment{e, zones, t}
}

// Provider implements contract.DNSProviderEnv.
func (d *dnsEnvironment) Provider() sdk.DNSProvider {
	return d.dns(d.process, d.customerConnection(d.t))
}

// Refused implements contract.DNSProviderEnv.
func (d *dnsEnvironment) Refused() sdk.DNSProvider {
	return d.dns(d.process, withGuessedSecrets(d.customerConnection(d.t)))
}

// NewZone implements contract.DNSProviderEnv.
func (d *dnsEnvironment) NewZone(T) string { return d.zones.add() }

// Put implements contract.DNSProviderEnv.
func (d *dnsEnvironment) Put(_ T, zone string, s dns.RRSet) {
	d.zones.replace(zone, func(r simulate.Record) bool { return r.Name == s.Name && r.Type == string(s.Type) }, simulate.RecordsOf([]dns.RRSet{s}))
}

// Held implements contract.DNSProviderEnv.
func (d *dnsEnvironment) Held(_ T, zone string) []dns.RRSet {
	return simulate.SetsOf(d.zones.records(zone))
}

// Lose implements contract.DNSProviderEnv.
func (d *dnsEnvironment) Lose(t T, failure contract.Failure) {
	kinds := map[contract.Failure]simulate.Kind{contract.LosesRequest: simulate.DropBefore, contract.LosesAnswer: simulate.DropAfter}
	d.simulator.planFault(t, simulate.Fault{Kind: kinds[failure], Times: 1, WritesOnly: true})
}

// Silent returns the plugin with a provider that never answers. The contract suite uses it to check
// that a cancelled write ends its request.
func (d *dnsEnvironment) Silent(t T) (p sdk.DNSProvider, requested <-chan struct{}, requireQuiet func(T)) {
	s := newSilentServer()
	return d.dns(d.process, d.connect(t, d.startSilentServer(t, s))), s.asked, s.requireQuiet
}

// dnsChecks are further checks that run a DNS plugin with its simulator.
var dnsChecks = []contract.Check[*dnsEnvironment]{
	{ID: "dns/read/many-records", Proves: "all record sets of a large zone are read once each", Run: func(t T, d *dnsEnvironment) {
		// 230 sets exceed a page of most providers. If the plugin reads 230 sets with as many
		// requests as one set, they fit into a page, and the check reads 1030 sets.
		if d.readManySets(t, 230) == d.readManySets(t, 1) {
			d.readManySets(t, 1030)
		}
	}},
	{ID: "dns/write/not-sent-twice", Proves: "a write whose answer is lost is sent once, because the host decides on a repetition", Run: func(t T, d *dnsEnvironment) {
		zone := d.NewZone(t)
		found, err := d.Provider().Zone(t.Context(), zone)
		if err != nil {
			t.Fatalf("Zone failed: %v", err)
		}
		before := d.simulator.writeCount(t)
		d.Lose(t, contract.LosesAnswer)
		_, err = d.addText(t, found, "written once")
		if sent := d.simulator.writeCount(t) - before; sent != 1 {
			t.Fatalf("the write returned %v after %d requests, want 1", err, sent)
		}
	}},
	{ID: "dns/failures/write-html-page", Proves: "a write that is answered with an HTML page is reported as broken or unknown", Run: func(t T, d *dnsEnvironment) {
		d.requireHTTP(t)
		d.checkFailedWrite(t, simulate.Fault{Kind: simulate.HTML}, outcome.Broken, outcome.Unknown)
	}},
	{ID: "dns/write/status-500", Proves: "a write that the provider answers with 500 is reported as broken or unknown", Run: func(t T, d *dnsEnvironment) {
		d.checkFailedWrite(t, simulate.Fault{Kind: simulate.Status, Status: 500}, outcome.Broken, outcome.Unknown)
	}},
	{ID: "dns/write/status-504", Proves: "a write that a gateway answers with 504 is reported as unknown or broken", Run: func(t T, d *dnsEnvironment) {
		d.requireHTTP(t)
		d.checkFailedWrite(t, simulate.Fault{Kind: simulate.Status, Status: 504}, outcome.Unknown, outcome.Broken)
	}},
	{ID: "dns/write/status-503", Proves: "a write that the provider answers with 503 is reported as down", Run: func(t T, d *dnsEnvironment) {
		d.requireHTTP(t)
		d.checkFailedWrite(t, simulate.Fault{Kind: simulate.Status, Status: 503}, outcome.Down)
	}},
}

// readManySets lets the plugin read a new zone with setCount record sets, and checks that each set
// is read once. It returns the number of requests that the plugin sent to read the sets.
func (d *dnsEnvironment) readManySets(t T, setCount int) (requests int) {
	t.Helper()
	zone := d.NewZone(t)
	var records []simulate.Record
	for i := range setCount {
		records = append(records, simulate.Record{Type: "TXT", Name: fmt.Sprintf("r%04d.%s", i, zone), Content: fmt.Sprint("value ", i), TTL: 300})
	}
	d.zones.replace(zone, func(simulate.Record) bool { return false }, records)
	ctx := callContext(t)
	found, err := d.Provider().Zone(ctx, zone)
	if err != nil {
		t.Fatalf("Zone failed: %v", err)
	}
	before := d.simulator.requestCount(t)
	sets, err := d.Provider().Records(ctx, found)
	if err != nil {
		t.Fatalf("Records failed: %v", err)
	}
	sets = slices.DeleteFunc(sets, func(s dns.RRSet) bool { return s.Type == dns.SOA || s.Type == dns.NS })
	names := map[string]bool{}
	for _, s := range sets {
		names[s.Name] = true
	}
	if len(sets) != setCount || len(names) != setCount {
		t.Fatalf("Records returned %d record sets with %d names, want %d sets with different names", len(sets), len(names), setCount)
	}
	return d.simulator.requestCount(t) - before
}

// checkFailedWrite makes one write that the provider answers with fault, and checks that the
// outcome is one of want.
func (d *dnsEnvironment) checkFailedWrite(t T, fault simulate.Fault, want ...outcome.Kind) {
	t.Helper()
	zone := d.NewZone(t)
	found, err := d.Provider().Zone(t.Context(), zone)
	if err != nil {
		t.Fatalf("Zone failed: %v", err)
	}
	fault.Times, fault.WritesOnly = 1, true
	d.simulator.planFault(t, fault)
	if _, err = d.addText(t, found, "x"); !slices.Contains(want, outcome.KindOf(err)) {
		t.Fatalf("a write that the provider answers with %+v returned %v, want %v", fault, err, want)
	}
}

func (d *dnsEnvironment) addText(t T, zone dns.Zone, value string) ([]dns.RRSet, error) {
	return d.Provider().Apply(callContext(t), zone, []dns.Change{{
		Before: dns.RRSet{Name: zone.Name, Type: dns.TXT}, After: dns.RRSet{Name: zone.Name, Type: dns.TXT, TTL: int(time.Hour.Seconds()), Values: []string{value}},
	}})
}
