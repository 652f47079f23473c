// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// Admit refuses one more domain beside the held ones.
func Admit(held, limit int) error {
	if held >= limit {
		return fault.DomainLimitReached.With("the tenant holds %d domains already", limit)
	}
	return nil
}

// Discovered merges what the platform lists into what is stored: the domains
// that the tenant has now, by name. What is known of a stored domain beyond
// the list (records, signing, DNS) stays; what the platform no longer lists is
// gone.
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

// As is the domain with the state that the platform tells. Only a verified
// domain can be the tenant's primary one, or accept mail and be signed.
func (d Domain) As(p Platform) Domain {
	d.Verified = p.Verified
	d.Default = p.Default && p.Verified
	if !p.Verified {
		d.MailReady, d.DKIM, d.Signing.Enabled = false, false, false
	}
	return d
}
