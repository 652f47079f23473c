// SPDX-License-Identifier: Apache-2.0

package sdk

import "github.com/tenantry/tenantry/core/dns"

// The types of the parameters and results of a DNSProvider.
type (
	// Zone is a zone at the provider.
	Zone = dns.Zone
	// RRSet is a record set: all values of one name and type.
	RRSet = dns.RRSet
	// RecordType is the type of a record, such as TXT.
	RecordType = dns.Type
	// Change replaces one record set of a zone.
	Change = dns.Change
)

// The record types that tenantry reads or writes.
const (
	TXT   = dns.TXT
	MX    = dns.MX
	CNAME = dns.CNAME
	NS    = dns.NS
	SOA   = dns.SOA
)

// NoZone returns the error of DNSProvider.Zone for a zone that the credential does not reach.
func NoZone() error { return dns.NoZone() }

// ZoneChanged returns the error of a write that was refused because the zone has changed since it
// was planned. Nothing was written.
func ZoneChanged() error { return dns.Changed() }

// Overlapped returns the error of a write that was made, although someone else changed the zone
// between the last read and the write.
func Overlapped() error { return dns.Overlapped() }

// CheckChanges returns an error if changes contain what no plugin may write: a name outside the
// zone, the zone's own NS and SOA sets, or two changes of one set. Call it first in
// DNSProvider.Apply.
func CheckChanges(zone string, changes []Change) error { return dns.CheckChanges(zone, changes) }

// Outstanding returns the changes that the zone does not have yet. current has the zone's record
// sets. Outstanding fails with ZoneChanged if a set equals neither Change.Before nor Change.After.
// The caller must then write nothing.
func Outstanding(current []RRSet, changes []Change) ([]Change, error) {
	return dns.Outstanding(current, changes)
}

// FindSet returns the record set of a name and type. A set that does not exist has no values.
func FindSet(sets []RRSet, name string, of RecordType) RRSet { return dns.Find(sets, name, of) }
