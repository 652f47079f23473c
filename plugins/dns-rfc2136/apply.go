// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// defaultTTL is the TTL in seconds of a new set for which no TTL is specified.
const defaultTTL = 3600

// Apply implements sdk.DNSProvider. Apply sends all changes in one message, which is one
// transaction. The prerequisites of the message require that the sets to change still have the
// values that Apply has read. Otherwise the server refuses the message.
func (p *provider) Apply(ctx context.Context, zone sdk.Zone, changes []sdk.Change) ([]sdk.RRSet, error) {
	if err := sdk.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	records, err := p.transfer(ctx, zone.Name)
	if err != nil {
		return nil, err
	}
	current, err := recordSets(zone.Name, records)
	if err != nil {
		return nil, err
	}
	outstanding, err := sdk.Outstanding(current, changes)
	if err != nil {
		return nil, err
	}
	if len(outstanding) > 0 {
		msg, err := newUpdateMessage(zone.Name, records, outstanding)
		if err != nil {
			return nil, err
		}
		if err := p.update(ctx, msg); err != nil {
			return nil, err
		}
		if current, err = sdk.ReadBack(ctx, p, zone, outstanding); err != nil {
			return nil, err
		}
	}
	return sdk.SetsAfter(current, changes), nil
}

// newUpdateMessage returns the update message for the changes. Removals come before additions, so
// that a CNAME can replace a set of a different type with the same name, and vice versa.
func newUpdateMessage(zone string, records []wire.RR, changes []sdk.Change) (*wire.Msg, error) {
	msg := new(wire.Msg).SetUpdate(wire.Fqdn(zone))
	var additions []wire.RR
	for _, c := range changes {
		existing := recordsOf(records, c.After)
		addPrerequisites(msg, existing, c, changes)
		added, err := addUpdates(msg, existing, c)
		if err != nil {
			return nil, err
		}
		additions = append(additions, added...)
	}
	msg.Insert(additions)
	return msg, nil
}

// addPrerequisites adds the prerequisites for one change. If the set exists, it must still have the
// records in existing. If it does not exist, it must still be missing. In addition, the name of a
// new CNAME must have no records, and the name of any other new set must have no CNAME. Without
// these two prerequisites, the server could silently ignore the new set (RFC 2136, 3.4.2.2). They
// are left out if changes has a set of the same name and a different type. The message can remove
// that set, but a server checks all prerequisites before it changes anything.
func addPrerequisites(msg *wire.Msg, existing []wire.RR, c sdk.Change, changes []sdk.Change) {
	changedSet := &wire.ANY{Hdr: wire.RR_Header{Name: wire.Fqdn(c.After.Name), Rrtype: wire.StringToType[string(c.After.Type)]}}
	if len(existing) > 0 {
		copies := make([]wire.RR, len(existing))
		for i, rr := range existing {
			copies[i] = wire.Copy(rr)
		}
		msg.Used(copies)
		return // the set exists, so no other set can conflict with it
	}
	onlyTypeOfName := !slices.ContainsFunc(changes, func(other sdk.Change) bool {
		return other.After.Type != c.After.Type && sdk.PlainName(other.After.Name) == sdk.PlainName(c.After.Name)
	})
	switch {
	case c.After.Type == sdk.CNAME && onlyTypeOfName:
		msg.NameNotUsed([]wire.RR{changedSet})
	case onlyTypeOfName:
		msg.RRsetNotUsed([]wire.RR{changedSet, &wire.ANY{Hdr: wire.RR_Header{Name: changedSet.Hdr.Name, Rrtype: wire.TypeCNAME}}})
	default:
		msg.RRsetNotUsed([]wire.RR{changedSet})
	}
}

// addUpdates adds the removals of one change to the message and returns the records to add. If the
// TTL changes, the update removes the whole set and adds it again. A TXT record that does not
// change keeps its division into character-strings.
func addUpdates(msg *wire.Msg, existing []wire.RR, change sdk.Change) ([]wire.RR, error) {
	ttl := uint32(defaultTTL)
	if change.After.TTL > 0 || len(existing) > 0 {
		ttl = uint32(change.After.TTL)
	}
	ttlChanges := len(existing) > 0 && existing[0].Header().Ttl != ttl
	missing := slices.Clone(change.After.Values) // has a value twice for two TXT records that differ only in their division
	var added, removed []wire.RR
	for _, rr := range existing {
		value, err := valueOf(rr)
		i := slices.Index(missing, value)
		stays := err == nil && i >= 0
		if stays {
			missing = slices.Delete(missing, i, i+1)
		}
		if rr = wire.Copy(rr); stays && ttlChanges {
			rr.Header().Ttl = ttl
			added = append(added, rr)
		} else if !stays {
			removed = append(removed, rr)
		}
	}
	if ttlChanges {
		msg.RemoveRRset(existing[:1:1])
	} else {
		msg.Remove(removed)
	}
	for _, value := range missing {
		rr, err := wire.NewRR(fmt.Sprintf("%s %d IN %s %s", wire.Fqdn(change.After.Name), ttl, change.After.Type, sdk.WriteContent(change.After.Type, value)))
		if err != nil || rr == nil || typeOf(rr) != string(change.After.Type) {
			return nil, sdk.RequestRefused("content_of_" + string(change.After.Type))
		}
		added = append(added, rr)
	}
	return added, nil
}

// recordsOf returns the records of the zone that belong to the set s.
func recordsOf(records []wire.RR, s sdk.RRSet) []wire.RR {
	var set []wire.RR
	for _, rr := range records {
		if setKey(rr) == sdk.PlainName(s.Name)+" "+string(s.Type) {
			set = append(set, rr)
		}
	}
	return set
}
