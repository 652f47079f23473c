// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"

	"github.com/tenantry/tenantry/core/dns"
)

// With returns the stored domain with the changes between was and now applied. Unchanged fields
// keep their stored values, which a concurrent request may have changed. Of two DNS reads the later
// one is kept.
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

// Seen returns the domain with the DNS read of other, unless that read is older.
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

func changed[T bool | dns.Record](stored *T, was, now T) {
	if now != was {
		*stored = now
	}
}
