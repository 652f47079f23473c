// SPDX-License-Identifier: Apache-2.0

package sdk

import "github.com/tenantry/tenantry/core/dns"

// The types of the parameters and results of a DNSProvider.
type (
	// Zone is a zone at the provider. ID is the provider's id, which the host does not interpret.
	// Name is the apex. Idle is the reason why the provider would not publish a change of the zone,
	// or empty.
	Zone = dns.Zone
	// RRSet is a record set: all Values of one Name and Type, and their TTL in seconds. Names are
	// fully qualified, in lower case, without the final dot. A TXT value is the text without
	// quotes. A CNAME or NS value is a name. An MX value is "preference host". Veiled is true for a
	// set of DNSProvider.Records if name servers return other records, because the provider proxies
	// or flattens the set. Only the host uses Synthesised.
	RRSet = dns.RRSet
	// RecordType is the type of a record, such as TXT.
	RecordType = dns.Type
	// Change replaces one record set of a zone. Before is the set as it was when the change was
	// planned, and After is the desired set. A set without values stands for a set that does not
	// exist. If both TTLs are equal, the set keeps its TTL. If only Before is Veiled, the change
	// also ends the proxying or flattening of the set, even if the values stay the same.
	Change = dns.Change
)

// Some of the record types that tenantry reads or writes.
const (
	TXT   = dns.TXT
	MX    = dns.MX
	CNAME = dns.CNAME
	NS    = dns.NS
	SOA   = dns.SOA
)

// IsNoZone reports whether err is or wraps an error of NoZone.
func IsNoZone(err error) bool { return dns.IsNoZone(err) }

// NoZone returns the error that DNSProvider.Zone returns for a zone that the credential cannot
// access.
func NoZone() error { return dns.NoZoneError() }

// ZoneChanged returns the error of a write that was refused because the zone has changed after the
// write was planned. Nothing was written.
func ZoneChanged() error { return dns.ChangedError() }

// Overlapped returns the error of a write that was made, although someone else changed the zone
// between the last read and the write. Return it only if the provider's answer proves this, for
// example by a serial that has increased by two. The service then stops the work on the domain
// until a person has checked the zone.
func Overlapped() error { return dns.OverlappedError() }

// CheckChanges returns an error if changes contain a change that no plugin may write: a change of a
// set that the zone cannot hold, of an SOA set, or of the zone's own NS set. A set of several
// CNAMEs, two changes of one set, and a change of a set's name or type are also not allowed. Call
// CheckChanges first in DNSProvider.Apply.
func CheckChanges(zone string, changes []Change) error { return dns.CheckChanges(zone, changes) }

// Outstanding returns the changes that the zone does not have yet. current contains the zone's
// record sets. In each returned change, Before is the current set and After.TTL is the TTL to
// write. Outstanding fails with ZoneChanged if a current set equals neither Change.Before nor
// Change.After, or if a name would have a CNAME and other records. The caller must then write
// nothing.
func Outstanding(current []RRSet, changes []Change) ([]Change, error) {
	return dns.Outstanding(current, changes)
}

// FindSet returns the record set of a name and type. A set that does not exist has no values.
func FindSet(sets []RRSet, name string, of RecordType) RRSet { return dns.Find(sets, name, of) }
