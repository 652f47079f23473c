// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
)

// DNSProvider is a DNS provider, accessed through one connection of an account. Names and values
// have the form of dns.RRSet.
//
// Errors: Refused with access_denied if the provider rejects the credential, and with
// invalid_request if the connection's settings are invalid. After Unknown or Broken from Apply, the
// zone has either all changes or none. Repeat the same Apply, which adopts existing values.
// Throttled, Down and Refused changed nothing.
type DNSProvider interface {
	// Check tests the credential and returns the number of zones that it reaches.
	Check(ctx context.Context) (zones int, err error)
	// Zone returns the zone with exactly this apex. It fails with dns.NoZone if the credential does
	// not reach it.
	Zone(ctx context.Context, name string) (dns.Zone, error)
	// Records lists all record sets of a zone from Zone, as the provider stores them, without
	// expanding wildcards. The zone's own SOA and NS may be missing. DNSSEC records are always left
	// out.
	Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error)
	// Apply makes all changes or none, and returns the changed sets as stored by the provider. It
	// fails with dns.Changed and writes nothing if a set is neither as planned nor as desired, or
	// if a CNAME would share its name. Nothing else in the zone changes. If all changes are already
	// made, it writes nothing and succeeds.
	Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error)
}
