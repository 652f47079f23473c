// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// Drift is a kind in which what was right in a verified domain's DNS no longer
// is.
type Drift string

// The kinds of drift.
const (
	SPFGone    Drift = "spf_gone"    // the mail platform may not send for the domain any more
	DKIMBroken Drift = "dkim_broken" // its keys are not found any more
	MXMoved    Drift = "mx_moved"    // mail for the domain goes elsewhere
)

// Drifts are all kinds, in the order in which a Health lists them.
var Drifts = []Drift{SPFGone, DKIMBroken, MXMoved}

// Health is what the reads of a domain's DNS came to over time.
type Health struct {
	// Sound are the kinds of what has been right at some time. What never was
	// is not published yet, and cannot drift.
	Sound []Drift
	// Drifted are those of them that are not right any more.
	Drifted []Drift
}

// Looked is the domain after a read of its DNS. Only a read that can be relied
// on finds drift, or ends one.
func (d Domain) Looked(s dns.Sight, now time.Time) Domain {
	d.Status = dns.Merge(d.Status, dns.ReadStatus(s, d.Verification, d.Signing), s.Complete)
	d.CheckedAt = now
	if s.Complete && d.Verified {
		spf, dkim, mx := dns.ReadSoundness(s, d.Offer())
		d.Health = d.Health.after(map[Drift]dns.Soundness{SPFGone: spf, DKIMBroken: dkim, MXMoved: mx})
	}
	return d
}

// Offer is what the mail platform has said of the domain's records.
func (d Domain) Offer() dns.Offer {
	return dns.Offer{Verification: d.Verification, Service: d.Service, Signing: d.Signing}
}

func (h Health) after(seen map[Drift]dns.Soundness) Health {
	var next Health
	for _, kind := range Drifts {
		sound, drifted := slices.Contains(h.Sound, kind), slices.Contains(h.Drifted, kind)
		switch seen[kind] {
		case dns.Right:
			sound, drifted = true, false
		case dns.Wrong:
			drifted = sound
		}
		if sound {
			next.Sound = append(next.Sound, kind)
		}
		if drifted {
			next.Drifted = append(next.Drifted, kind)
		}
	}
	return next
}

// Day is how often the DNS of a verified domain is read again.
const Day = 24 * time.Hour

// DueSince is the time of the last read before which a domain is read again.
// That is less than a day ago: with few domains a tick's share is more than they
// need, and with many the shares make the day.
func DueSince(now time.Time) time.Time { return now.Add(-Day / 2) }

// Due reports whether the domain's DNS is to be read again.
func (d Domain) Due(now time.Time) bool { return d.Verified && !d.CheckedAt.After(DueSince(now)) }

// Share is how many of so many domains are read in one tick, so that all of them
// are within a day, and none of them at the same time.
func Share(domains int, tick time.Duration) int {
	day := int64(Day)
	return int((int64(domains)*int64(tick) + day - 1) / day)
}
