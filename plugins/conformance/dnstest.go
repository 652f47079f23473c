// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// DNSFixture is the environment in which the contract suite of a DNS provider runs.
type DNSFixture = contract.DNSProviderEnv

// DNSTest is a DNSFixture that uses the simulator of the plugin. The simulator must have the
// control calls of simulate.Zones. DNSTest also has the methods of Simulator: Connection, Control,
// Fail and Violations.
type DNSTest struct {
	*Simulator
	newProvider  func(sdk.Connection) sdk.DNSProvider
	zonesCreated atomic.Int64
}

// SimulateDNS starts a simulator as Simulate does. newProvider returns the provider under test.
func SimulateDNS(t T, open opener, newProvider func(sdk.Connection) sdk.DNSProvider) *DNSTest {
	t.Helper()
	return &DNSTest{Simulator: Simulate(t, open), newProvider: newProvider}
}

// Provider returns the provider with the credential of the simulator.
func (d *DNSTest) Provider() sdk.DNSProvider { return d.newProvider(d.Connection(nil, nil)) }

// Refused returns the provider with secrets that the simulator does not accept.
func (d *DNSTest) Refused() sdk.DNSProvider {
	guessed := map[string]string{}
	for name := range d.Ready.Secrets {
		guessed[name] = "guessed"
	}
	return d.newProvider(d.Connection(nil, guessed))
}

// NewZone creates a zone and returns its name.
func (d *DNSTest) NewZone(t T) string {
	t.Helper()
	name := fmt.Sprintf("zone-%d.test", d.zonesCreated.Add(1))
	d.Control(t, http.MethodPut, "/zones/"+name, struct{}{}, nil)
	return name
}

// Put replaces one record set of a zone.
func (d *DNSTest) Put(t T, zone string, s sdk.RRSet) {
	t.Helper()
	sets := slices.DeleteFunc(d.Held(t, zone), func(old sdk.RRSet) bool { return old.Name == s.Name && old.Type == s.Type })
	d.Control(t, http.MethodPut, "/zones/"+zone+"/records", simulate.RecordsOf(append(sets, s)), nil)
}

// Held returns the record sets of a zone.
func (d *DNSTest) Held(t T, zone string) []sdk.RRSet {
	t.Helper()
	var records []simulate.Record
	d.Control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &records)
	return simulate.SetsOf(records)
}

// Lose makes the next request that changes a zone fail. If failure is LosesRequest, the simulator
// does not execute the request. Otherwise the answer is lost.
func (d *DNSTest) Lose(t T, failure contract.Failure) {
	t.Helper()
	kind := simulate.DropAfter
	if failure == contract.LosesRequest {
		kind = simulate.DropBefore
	}
	d.Control(t, http.MethodPost, "/faults", simulate.Fault{Kind: kind, WritesOnly: true, Times: 1}, nil)
}
