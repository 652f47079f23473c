// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
)

// CheckDomainLimit fails with domain_limit_reached if the tenant already has as many domains as the
// limit.
func CheckDomainLimit(count, limit int) error {
	if count >= limit {
		return fault.DomainLimitReached.With("the tenant already has %d domains", limit)
	}
	return nil
}

// Observed holds the times at which the parts of a domain were observed at the platform, zero for
// never. The comments of the first six times name the fields that they cover. Package observation
// defines the time of an observation. The time of the DNS read is in Domain.CheckedAt.
type Observed struct {
	State     time.Time // Added, MissingSince and PreviousMissingSince
	Verified  time.Time // Verified and Default; see observation.HeldUntil
	Mail      time.Time // MailReady
	Signing   time.Time // DKIMEnabled and Signing.Enabled
	Selectors time.Time // the two CNAMEs of Signing
	Records   time.Time // Verification and Service
	// Change is when the platform last showed a sign that the domain was removed and added again
	// under the same name. A sign is that Verified differs from the stored value, or that a missing
	// domain is found again. It is also a sign that a read before a repeated verification does not
	// find the domain. When a caller's removal of the domain begins, the store sets Change to zero.
	// A repeated request for the same removal leaves it as it is.
	Change time.Time
	// PreviousMissingSince keeps the MissingSince of a missing domain while a request adds the
	// domain again. ReservedAgain sets it. It is zero for other domains.
	PreviousMissingSince time.Time
}

// Merge returns the stored domain d, updated with seen, an observation of the domain. A part of d
// stays if it was observed later than the same part of seen. WithRecords can also keep the service
// records.
func (d Domain) Merge(seen Domain) Domain {
	foundAgain := !d.MissingSince.IsZero() && seen.MissingSince.IsZero()
	if observation.Advance(&d.Observed.State, seen.Observed.State) {
		if foundAgain || d.Verified != seen.Verified {
			d.Observed.Change = seen.Observed.State
		}
		d.Added, d.MissingSince, d.Observed.PreviousMissingSince = seen.Added, seen.MissingSince, seen.Observed.PreviousMissingSince
	}
	if observation.Advance(&d.Observed.Verified, seen.Observed.Verified) {
		d.Verified, d.Default = seen.Verified, seen.Default
		if !d.Verified {
			d = d.WithoutMail(seen.Observed.State)
		}
	}
	if observation.Advance(&d.Observed.Mail, seen.Observed.Mail) {
		d.MailReady = seen.MailReady
	}
	if observation.Advance(&d.Observed.Signing, seen.Observed.Signing) {
		d.DKIMEnabled, d.Signing.Enabled = seen.DKIMEnabled, seen.DKIMEnabled
	}
	if observation.Advance(&d.Observed.Selectors, seen.Observed.Selectors) {
		d.Signing.Selector1, d.Signing.Selector2 = seen.Signing.Selector1, seen.Signing.Selector2
	}
	if observation.Advance(&d.Observed.Records, seen.Observed.Records) {
		d = d.WithRecords(Records{Verification: seen.Verification, Service: seen.Service}, seen.Observed.Records)
	}
	observation.Advance(&d.Observed.Change, seen.Observed.Change)
	return d.WithLaterRead(seen)
}

// WithCanonicalNames returns the domains of the platform's list with canonical names. It leaves out
// domains whose names are not valid, because no other call to the platform can name them.
func WithCanonicalNames(list []Platform) []Platform {
	canonical := make([]Platform, 0, len(list))
	for _, p := range list {
		if p.Name = ParseNameOrNone(p.Name); p.Name != NoName {
			canonical = append(canonical, p)
		}
	}
	return canonical
}

// WithoutMail returns the domain with MailReady and DKIMEnabled set to false, except a value that
// was observed after the time at. Call it for a domain that was observed as not verified at that
// time. Only a verified domain can accept mail or be signed.
func (d Domain) WithoutMail(at time.Time) Domain {
	if observation.Advance(&d.Observed.Mail, at) {
		d.MailReady = false
	}
	if observation.Advance(&d.Observed.Signing, at) {
		d.DKIMEnabled, d.Signing.Enabled = false, false
	}
	return d
}

// WithPlatformState returns the domain with the platform's state, as observed at the time at. Only
// a verified domain can be the default domain.
func (d Domain) WithPlatformState(p Platform, at time.Time) Domain {
	d.Added, d.MissingSince, d.Observed.PreviousMissingSince, d.Observed.State = true, time.Time{}, time.Time{}, at
	d.Verified, d.Default, d.Observed.Verified = p.Verified, p.Default && p.Verified, at
	return d
}

// WithRecords returns the domain with the records that the platform specified at the time at. If
// the mail server accepts the verified domain, the platform has specified service records. An
// answer without them then comes from a lagging replica, so the domain keeps its service records.
func (d Domain) WithRecords(r Records, at time.Time) Domain {
	d.Verification, d.Observed.Records = r.Verification, at
	if len(r.Service) > 0 || !d.Verified || !d.MailReady {
		d.Service = r.Service
	}
	return d
}

// WithSigning returns the domain with its DKIM configuration, as observed at the time at.
func (d Domain) WithSigning(s dns.Signing, at time.Time) Domain {
	d.Signing, d.DKIMEnabled, d.Observed.Signing, d.Observed.Selectors = s, s.Enabled, at, at
	return d
}

// ReservedAgain turns a missing domain into a reservation, because a request is about to add the
// domain. at is the time of the reservation. The request then finds out whether the platform still
// has the domain.
func (d Domain) ReservedAgain(at time.Time) Domain {
	d.Added, d.MissingSince, d.Observed.PreviousMissingSince, d.Observed.State = false, time.Time{}, d.MissingSince, at
	return d
}

// MissingAgain undoes ReservedAgain: it returns the reservation as a missing domain with its old
// MissingSince. MissingAgain is called when the request did not add the domain.
func (d Domain) MissingAgain() Domain {
	d.MissingSince, d.Observed.PreviousMissingSince = d.Observed.PreviousMissingSince, time.Time{}
	return d
}

// MayBeHidden reports whether the tenant may already have the reserved domain d, although the
// platform does not show it yet. This is possible in two cases:
//
//   - The first discovery that missed the domain was less than observation.ReplicaLag ago.
//   - An earlier request reserved the domain less than observation.ReplicaLag ago, and may have
//     added it.
func (d Domain) MayBeHidden(now time.Time) bool {
	return now.Sub(d.Observed.PreviousMissingSince) < observation.ReplicaLag || now.Sub(d.PreviousReservedAt) < observation.ReplicaLag
}

// AfterMiss returns the stored domain after a discovery that found it neither in the platform's
// list nor by its name. The discovery began at the time at. gone reports whether the domain no
// longer exists. If the stored observation is newer than the discovery, AfterMiss changes nothing.
func (d Domain) AfterMiss(at time.Time) (missed Domain, gone bool) {
	since := cmp.Or(d.MissingSince, d.Observed.PreviousMissingSince)
	if !observation.Advance(&d.Observed.State, at) {
		return d, false
	}
	d.MissingSince, d.Observed.PreviousMissingSince = cmp.Or(since, at), time.Time{}
	return d, observation.IsGone(since, at)
}

// WithLaterRead returns d with the Status, Health and CheckedAt of read, and with the kinds of both
// domains in Health.EverCorrect. It returns d unchanged if d was read later.
func (d Domain) WithLaterRead(read Domain) Domain {
	if read.CheckedAt.Before(d.CheckedAt) {
		return d
	}
	before := d.Health.EverCorrect
	d.Status, d.Health, d.CheckedAt = read.Status, read.Health, read.CheckedAt
	d.Health.EverCorrect = nil
	for _, kind := range Drifts {
		if slices.Contains(before, kind) || slices.Contains(read.Health.EverCorrect, kind) {
			d.Health.EverCorrect = append(d.Health.EverCorrect, kind)
		}
	}
	return d
}
