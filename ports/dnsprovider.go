// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
)

// DNSProvider is a DNS provider as one connection of an account reaches it.
// Names and values are as in dns.RRSet, whatever the provider's own form.
//
// How calls end: Refused with access_denied when the provider does not take
// the credential, with invalid_request when the connection's settings make no
// sense. Unknown or Broken after Apply leave open whether the zone has
// changed, as a whole or not at all: repeat the same Apply, which adopts what
// is there. Throttled, Down and Refused changed nothing.
type DNSProvider interface {
	// Check asks the provider whether it takes the credential, and counts
	// the zones that it reaches.
	Check(ctx context.Context) (zones int, err error)
	// Zone finds the zone with exactly this apex. It is dns.NoZone when the
	// credential does not reach it.
	Zone(ctx context.Context, name string) (dns.Zone, error)
	// Records lists all record sets of a zone that Zone returned, as the
	// provider holds them, and nothing that a wildcard makes up. The zone's
	// own SOA and NS may be missing; DNSSEC's own records always are.
	Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error)
	// Apply makes all changes or none and returns the changed sets as the
	// provider holds them afterwards. Each change carries the state that it
	// was planned from: when one set has neither that state nor the wanted
	// one, or a CNAME has got a neighbour, it is dns.Changed and nothing is
	// written. Nothing else in the zone changes. Applying again what is
	// there already writes nothing and succeeds.
	Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error)
}
