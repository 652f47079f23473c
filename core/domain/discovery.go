// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// Admit fails with domain_limit_reached if held domains already reach the limit.
func Admit(held, limit int) error {
	if held >= limit {
		return fault.DomainLimitReached.With("the tenant holds %d domains already", limit)
	}
	return nil
}

// Discovered returns the tenant's domains, by name: the platform's list merged with the stored
// domains. Stored records, signing and DNS status are kept. Domains that are not listed are
// dropped.
func Discovered(stored []Domain, listed []Platform) []Domain {
	known := make(map[string]Domain, len(stored))
	for _, d := range stored {
		known[d.Name] = d
	}
	now := make([]Domain, 0, len(listed))
	for _, p := range listed {
		name := Lookup(p.Name)
		if name == NoName {
			continue // nothing that our other calls could name
		}
		d := known[name]
		d.Name, d.Added = name, true
		now = append(now, d.As(p))
	}
	slices.SortFunc(now, func(a, b Domain) int { return strings.Compare(a.Name, b.Name) })
	return now
}

// As returns the domain with the platform's state. Only a verified domain can be primary, accept
// mail or be signed.
func (d Domain) As(p Platform) Domain {
	d.Verified = p.Verified
	d.Default = p.Default && p.Verified
	if !p.Verified {
		d.MailReady, d.DKIM, d.Signing.Enabled = false, false, false
	}
	return d
}
