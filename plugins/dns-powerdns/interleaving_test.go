// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// owner is the owner of a zone, who changes a record set while the plugin writes it. Each change
// begins with the set as it is at that moment.
type owner struct {
	*fixture
	t             *testing.T
	zone          string
	changes       int  // number of changes that the owner has made
	hasOverlapped bool // the owner changed the zone between the plugin's read and its PATCH
	// added are the values that the owner added and did not remove later. removed are the values
	// that the owner removed. ttl is the TTL that the owner set, or 0.
	added, removed []string
	ttl            int
}

// removableValue is a value that zones of the test have at first. The owner can remove it.
const removableValue = "removable"

// ownersTTL is a TTL that no set has at first.
const ownersTTL = 77

// ownersChanges are the changes that an owner can make. set is the TXT set of the zone's apex.
var ownersChanges = []func(o *owner, set sdk.RRSet){
	func(o *owner, set sdk.RRSet) { // adds a value
		value := fmt.Sprintf("added %d", o.changes)
		o.added = append(o.added, value)
		o.putValues(set, append(set.Values, value))
	},
	func(o *owner, set sdk.RRSet) { // removes a value
		o.removed = append(o.removed, removableValue)
		o.putValues(set, slices.DeleteFunc(set.Values, func(v string) bool { return v == removableValue }))
	},
	func(o *owner, set sdk.RRSet) { // deletes the set
		o.removed, o.added, o.ttl = append(o.removed, set.Values...), nil, 0
		o.putValues(set, nil)
	},
	func(o *owner, set sdk.RRSet) { // changes the TTL
		if len(set.Values) > 0 {
			o.ttl, set.TTL = ownersTTL, ownersTTL
		}
		o.putValues(set, set.Values)
	},
	func(o *owner, _ sdk.RRSet) { // changes a different set
		o.putValues(sdk.RRSet{Name: "www." + o.zone, Type: sdk.TXT}, []string{fmt.Sprint("of www ", o.changes)})
	},
}

func (o *owner) putValues(set sdk.RRSet, values []string) {
	set.Values, set.TTL = values, cmp.Or(set.TTL, 300)
	o.Put(o.t, o.zone, set)
}

func (o *owner) currentSet() sdk.RRSet {
	set := sdk.FindSet(o.Held(o.t, o.zone), o.zone, sdk.TXT)
	set.Name, set.Type = o.zone, sdk.TXT
	return set
}

// planChanges chooses at most two changes of the owner. For each change it also chooses one of the
// requests of Apply, before which the owner makes the change. The test must call beforeRequest
// before each of these requests. beforeRequest makes the changes that are chosen for the request.
func (o *owner) planChanges(order *interleaving.Order) (beforeRequest func()) {
	const requestsOfApply = 3 // the read, the PATCH, and the read of the written sets
	var changesBefore [requestsOfApply][]func(*owner, sdk.RRSet)
	for request, chosen := 0, 0; chosen < 2; chosen++ {
		if request += order.Choose(requestsOfApply + 1 - request); request == requestsOfApply {
			break
		}
		changesBefore[request] = append(changesBefore[request], ownersChanges[order.Choose(len(ownersChanges))])
	}
	nextRequest := 0
	return func() {
		for _, change := range changesBefore[nextRequest] {
			o.changes++
			o.hasOverlapped = o.hasOverlapped || nextRequest == 1
			change(o, o.currentSet())
		}
		nextRequest++
	}
}

// lostAChange reports whether a change of the owner was undone.
func (o *owner) lostAChange(current sdk.RRSet) bool {
	contains := func(v string) bool { return slices.Contains(current.Values, v) }
	return slices.ContainsFunc(o.added, func(v string) bool { return !contains(v) }) || slices.ContainsFunc(o.removed, contains) ||
		o.ttl != 0 && len(current.Values) > 0 && current.TTL != o.ttl
}

// TestChangesOfTheOwnerInEveryOrder lets the owner change the zone up to two times, before any of
// the three requests of Apply. Apply must report an overlap if the owner changed the zone between
// the read and the PATCH of Apply, and only then. If Apply succeeds, the zone must have the wanted
// set. If its error says that nothing changed, Apply must have sent no PATCH. Without
// TENANTRY_SOAK, the test tries some random orders only.
func TestChangesOfTheOwnerInEveryOrder(t *testing.T) {
	fixture := newFixture(t)
	interleaving.Explore(t, 0, func(t *testing.T, order *interleaving.Order) {
		zone := fixture.NewZone(t)
		fixture.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": []string{"DEFAULT", "INCREASE"}[order.Choose(2)]})
		before := sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"of the owner", removableValue}}
		fixture.Put(t, zone, before)
		zoneInfo := findZone(t, fixture, zone)
		after := before
		after.Values = []string{"MS=ms1", "of the owner", removableValue}
		zoneOwner := &owner{fixture: fixture, t: t, zone: zone}
		beforeRequest, patchesBefore := zoneOwner.planChanges(order), fixture.patches.Load()
		fixture.beforeCall.Store(&beforeRequest)
		_, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}})
		fixture.beforeCall.Store(nil)
		held, outcome := zoneOwner.currentSet(), sdk.OutcomeOf(err)
		overlapped := outcome == sdk.OutcomeOf(sdk.Overlapped())
		changedNothing := err != nil && outcome.Kind != sdk.Broken && outcome.Kind != sdk.Unknown
		switch {
		case zoneOwner.lostAChange(held) && !overlapped:
			t.Errorf("a change of the owner is lost, and Apply returned %v, want overlapped; the zone has %+v", err, held)
		case overlapped && !zoneOwner.hasOverlapped:
			t.Errorf("nobody changed the zone between the read and the PATCH, and Apply returned %v, want no overlap", err)
		case zoneOwner.hasOverlapped && !overlapped:
			t.Errorf("the zone changed between the read and the PATCH, and Apply returned %v, want overlapped", err)
		case err == nil && !held.Same(after):
			t.Errorf("Apply succeeded, and the zone has %+v, want %+v", held, after)
		case changedNothing && fixture.patches.Load() > patchesBefore:
			t.Errorf("Apply sent a PATCH and returned %v, want no PATCH, because the error says that nothing changed", err)
		}
	})
}
