// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
)

// DNSProvider is a DNS provider, accessed through one connection of an account. Names and values
// have the form of dns.RRSet.
//
// A call fails as outcome.Refused with access_denied if the provider rejects the credential, and
// with invalid_request if the connection's settings are invalid. After an error of kind Throttled,
// Down or Refused, the zone is unchanged. If Apply fails as Unknown or Broken, the zone has either
// all changes or none. The caller then repeats the same Apply, which accepts values that already
// exist. It does not repeat Apply after dns.OverlappedError, because the changes were made.
type DNSProvider interface {
	// Check tests the credential and returns the number of zones to which the credential has
	// access. If the provider reports no total, zones counts only the first page.
	Check(ctx context.Context) (zones int, err error)
	// Zone returns the zone with exactly this apex. It fails with dns.NoZoneError if the credential
	// has no access to such a zone.
	Zone(ctx context.Context, name string) (dns.Zone, error)
	// Records lists all record sets of a zone that Zone returned, as the provider stores them.
	// Wildcards are not expanded. The SOA and NS sets of the zone's apex may be missing. The
	// records that the provider creates for DNSSEC are left out, but DS sets are listed. A set is
	// Veiled if name servers return other records because the provider proxies or flattens the set.
	Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error)
	// Apply makes all changes or none, and returns the changed sets as stored by the provider. It
	// leaves all other sets of the zone unchanged. If only Before of a change is Veiled, Apply also
	// ends the proxying or flattening of the set. A TTL below the provider's minimum is raised to
	// the minimum. If all changes are already made, Apply writes nothing and succeeds. It fails
	// with dns.ChangedError and writes nothing if a set equals neither Before nor After of its
	// change, or if a CNAME would share its name with other records. A provider may allow other
	// records beside a CNAME at the apex.
	//
	// Some providers cannot make a write conditional. For these providers, Apply fails with
	// dns.OverlappedError after the write if someone else changed the zone between Apply's last
	// read and the write.
	Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error)
}
