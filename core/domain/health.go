// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// Drift says which records of a domain (SPF, DKIM or MX) were correct and no longer are. Lists such
// as Health.EverCorrect use the same values as names for these three kinds of records.
type Drift string

// The kinds of drift.
const (
	SPFGone    Drift = "spf_gone"    // SPF no longer allows the mail platform to send for the domain
	DKIMBroken Drift = "dkim_broken" // at least one selector no longer leads to the platform's key
	MXMoved    Drift = "mx_moved"    // no MX record names a host of the mail platform any more
)

// Drifts lists all kinds, in the order in which a Health lists them.
var Drifts = []Drift{SPFGone, DKIMBroken, MXMoved}

// Health is the result of all reads of a domain's DNS.
type Health struct {
	// EverCorrect lists the kinds of records that were correct in at least one read. A kind that
	// was never correct has not been set up yet, so it cannot drift.
	EverCorrect []Drift
	// Drifted lists the kinds in EverCorrect that are no longer correct.
	Drifted []Drift
}

// WithRead returns the domain after a read of its DNS. hosts are the hosts of the mail platform,
// nil if they are unknown. Only a complete read of a verified domain can detect or end drift, and
// only if hosts is not nil.
func (d Domain) WithRead(read dns.ZoneRead, now time.Time, hosts *dns.PlatformHosts) Domain {
	d.Status = dns.MergeStatus(d.Status, dns.ReadStatus(read, d.Verification, d.Signing), read.Complete)
	d.CheckedAt = now
	if read.Complete && d.Verified && hosts != nil {
		spf, dkim, mx := dns.ReadSoundness(read, d.Offer(*hosts))
		d.Health = d.Health.afterRead(map[Drift]dns.Soundness{SPFGone: spf, DKIMBroken: dkim, MXMoved: mx})
	}
	return d
}

// Offer returns the records that the mail platform specifies for the domain.
func (d Domain) Offer(hosts dns.PlatformHosts) dns.Offer {
	return dns.Offer{Verification: d.Verification, Service: d.Service, Signing: d.Signing, Hosts: hosts}
}

// afterRead returns the health after a complete read.
func (h Health) afterRead(seen map[Drift]dns.Soundness) Health {
	var next Health
	for _, kind := range Drifts {
		everCorrect, drifted := slices.Contains(h.EverCorrect, kind), slices.Contains(h.Drifted, kind)
		switch seen[kind] {
		case dns.SoundnessRight:
			everCorrect, drifted = true, false
		case dns.SoundnessWrong:
			drifted = everCorrect
		}
		if everCorrect {
			next.EverCorrect = append(next.EverCorrect, kind)
		}
		if drifted {
			next.Drifted = append(next.Drifted, kind)
		}
	}
	return next
}

// RereadInterval is the interval at which the DNS of each verified domain is read again.
const RereadInterval = 24 * time.Hour

// DueSince returns the time half a day ago. A domain is due if its last read was at that time or
// earlier. The other half of the day remains for the reads of all due domains.
func DueSince(now time.Time) time.Time { return now.Add(-RereadInterval / 2) }

// IsDue reports whether the domain's DNS must be read again.
func (d Domain) IsDue(now time.Time) bool { return d.Verified && !d.CheckedAt.After(DueSince(now)) }

// ReadsPerTick returns how many of the domains to read in one interval of the length tick, so that
// all domains are read within a day.
func ReadsPerTick(domains int, tick time.Duration) int {
	day := int64(RereadInterval)
	return int((int64(domains)*int64(tick) + day - 1) / day)
}
