// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
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
			continue // the other calls to the platform could not name it
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

// With returns the stored domain with the changes between was and now applied. Fields that did not
// change between them keep their stored values, which a concurrent request may have changed. Of two
// DNS reads the later one is kept.
func (d Domain) With(was, now Domain) Domain {
	changed(&d.Added, was.Added, now.Added)
	changed(&d.Default, was.Default, now.Default)
	changed(&d.Verified, was.Verified, now.Verified)
	changed(&d.DKIM, was.DKIM, now.DKIM)
	changed(&d.MailReady, was.MailReady, now.MailReady)
	if !slices.Equal(was.Verification, now.Verification) {
		d.Verification = now.Verification
	}
	if !slices.Equal(was.Service, now.Service) {
		d.Service = now.Service
	}
	changed(&d.Signing.Selector1, was.Signing.Selector1, now.Signing.Selector1)
	changed(&d.Signing.Selector2, was.Signing.Selector2, now.Signing.Selector2)
	d.Signing.Enabled = d.DKIM
	if !now.sees(was) {
		d = d.Seen(now)
	}
	return d
}

// Seen returns the domain with the DNS read of other. An older read is ignored.
func (d Domain) Seen(other Domain) Domain {
	if other.CheckedAt.Before(d.CheckedAt) {
		return d
	}
	sound := d.Health.Sound
	d.Status, d.Health, d.CheckedAt = other.Status, other.Health, other.CheckedAt
	d.Health.Sound = nil
	for _, kind := range Drifts { // a record that was right in either read counts as sound
		if slices.Contains(sound, kind) || slices.Contains(other.Health.Sound, kind) {
			d.Health.Sound = append(d.Health.Sound, kind)
		}
	}
	return d
}

// sees reports whether both domains have the same DNS read.
func (d Domain) sees(other Domain) bool {
	return d.Status == other.Status && d.CheckedAt.Equal(other.CheckedAt) &&
		slices.Equal(d.Health.Sound, other.Health.Sound) && slices.Equal(d.Health.Drifted, other.Health.Drifted)
}

// changed sets stored to now if the value has changed since was.
func changed[T bool | dns.Record](stored *T, was, now T) {
	if now != was {
		*stored = now
	}
}
