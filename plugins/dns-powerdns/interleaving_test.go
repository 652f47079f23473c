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
	t       *testing.T
	zone    string
	changes int
	overlap bool // the owner changed the zone between the plugin's read and its PATCH
	// added are the values that the owner added and did not delete. removed are the values that the
	// owner removed. ttl is the TTL that the owner set, 0 for none.
	added, removed []string
	ttl            int
}

// ownersChanges are the changes that an owner can make.
var ownersChanges = []func(o *owner, set sdk.RRSet){
	func(o *owner, set sdk.RRSet) { // adds a value
		value := fmt.Sprintf("added %d", o.changes)
		o.added = append(o.added, value)
		o.put(set, append(set.Values, value))
	},
	func(o *owner, set sdk.RRSet) { // removes a value
		o.removed = append(o.removed, "second")
		o.put(set, slices.DeleteFunc(set.Values, func(v string) bool { return v == "second" }))
	},
	func(o *owner, set sdk.RRSet) { // deletes the set
		o.removed, o.added, o.ttl = append(o.removed, set.Values...), nil, 0
		o.put(set, nil)
	},
	func(o *owner, set sdk.RRSet) { // changes the TTL
		if len(set.Values) > 0 {
			o.ttl, set.TTL = 77, 77
		}
		o.put(set, set.Values)
	},
	func(o *owner, _ sdk.RRSet) { // changes a different set
		o.put(sdk.RRSet{Name: "www." + o.zone, Type: sdk.TXT}, []string{fmt.Sprint("of www ", o.changes)})
	},
}

func (o *owner) put(set sdk.RRSet, values []string) {
	set.Values, set.TTL = values, cmp.Or(set.TTL, 300)
	o.Put(o.t, o.zone, set)
}

func (o *owner) held() sdk.RRSet {
	set := sdk.FindSet(o.Held(o.t, o.zone), o.zone, sdk.TXT)
	set.Name, set.Type = o.zone, sdk.TXT
	return set
}

// plan chooses at most two changes, each with the request of the plugin before which it is made. It
// returns a function for the plugin's next request, which makes the changes that are due.
func (o *owner) plan(order *interleaving.Order) (beforeRequest func()) {
	const requests = 3
	var due [requests][]func(*owner, sdk.RRSet)
	for at, n := 0, 0; n < 2; n++ {
		if at += order.Choose(requests + 1 - at); at == requests {
			break
		}
		due[at] = append(due[at], ownersChanges[order.Choose(len(ownersChanges))])
	}
	next := 0
	return func() {
		for _, change := range due[next] {
			o.changes++
			o.overlap = o.overlap || next == 1
			change(o, o.held())
		}
		next++
	}
}

// lost reports whether a change of the owner was undone.
func (o *owner) lost(held sdk.RRSet) bool {
	has := func(v string) bool { return slices.Contains(held.Values, v) }
	return slices.ContainsFunc(o.added, func(v string) bool { return !has(v) }) || slices.ContainsFunc(o.removed, has) ||
		o.ttl != 0 && len(held.Values) > 0 && held.TTL != o.ttl
}

// TestChangesOfTheOwnerInEveryOrder lets the owner change the zone up to two times, before any of
// the three requests of Apply. If a change of the owner is lost, Apply must report an overlap. It
// may report an overlap only if there was a change between its read and its PATCH. It may report
// that nothing or everything was written only if that is true.
func TestChangesOfTheOwnerInEveryOrder(t *testing.T) {
	f := newFixture(t)
	interleaving.Explore(t, 0, func(t *testing.T, order *interleaving.Order) {
		zone := f.NewZone(t)
		f.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": []string{"DEFAULT", "INCREASE"}[order.Choose(2)]})
		before := sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"of the owner", "second"}}
		f.Put(t, zone, before)
		z := findZone(t, f, zone)
		after := before
		after.Values = []string{"MS=ms1", "of the owner", "second"}
		o := &owner{fixture: f, t: t, zone: zone}
		act, patches := o.plan(order), f.patches.Load()
		f.beforeCall.Store(&act)
		_, err := f.Provider().Apply(t.Context(), z, []sdk.Change{{Before: before, After: after}})
		f.beforeCall.Store(nil)
		held, ended := o.held(), sdk.OutcomeOf(err)
		overlapped := ended == sdk.OutcomeOf(sdk.Overlapped())
		changedNothing := err != nil && ended.Kind != sdk.Broken && ended.Kind != sdk.Unknown
		switch {
		case o.lost(held) && !overlapped:
			t.Errorf("a change of the owner is lost, and Apply returned %v; the zone has %+v", err, held)
		case overlapped && (!o.overlap || changedNothing):
			t.Errorf("nobody changed the zone before the PATCH, and Apply returned %v", err)
		case o.overlap && !overlapped:
			t.Errorf("the zone changed before the PATCH, and Apply returned %v", err)
		case err == nil && !held.Same(after):
			t.Errorf("Apply succeeded, and the zone has %+v", held)
		case changedNothing && f.patches.Load() > patches:
			t.Errorf("Apply wrote and returned %v", err)
		}
	})
}
