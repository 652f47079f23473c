// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"

	"github.com/tenantry/tenantry/core/dns"
)

// With is the stored domain with what somebody changed who read it as was and
// has it as now. What they left alone stays as it is stored: somebody else may
// have changed that meanwhile. Of two looks at the DNS the later one stands.
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

// Seen is the domain with the look at its DNS of another, if that is not the
// earlier one.
func (d Domain) Seen(other Domain) Domain {
	if other.CheckedAt.Before(d.CheckedAt) {
		return d
	}
	sound := d.Health.Sound
	d.Status, d.Health, d.CheckedAt = other.Status, other.Health, other.CheckedAt
	d.Health.Sound = nil
	for _, kind := range Drifts { // what was right for either of them has been right
		if slices.Contains(sound, kind) || slices.Contains(other.Health.Sound, kind) {
			d.Health.Sound = append(d.Health.Sound, kind)
		}
	}
	return d
}

// sees reports whether two are from the same look.
func (d Domain) sees(other Domain) bool {
	return d.Status == other.Status && d.CheckedAt.Equal(other.CheckedAt) &&
		slices.Equal(d.Health.Sound, other.Health.Sound) && slices.Equal(d.Health.Drifted, other.Health.Drifted)
}

func changed[T bool | dns.Record](stored *T, was, now T) {
	if now != was {
		*stored = now
	}
}
