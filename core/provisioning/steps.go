// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// planned writes what may be written. A zone that needs nothing goes on whoever
// holds it: its records may have been published by hand.
func (d *decision) planned(z Zone) {
	switch required := z.required(); {
	case z.settled():
		d.publish()
	case required == "":
		d.PlanHash = z.Hash
		if d.Stage == StagePlan {
			d.enter(StageApply, Apply)
			return
		}
		d.goOn(Apply)
	case required == dns.ReadUnreliable:
		d.unreliable(z)
	default:
		d.require(required, z.Message)
	}
}

// applied goes on when the plan is written. A plan that needs nothing more was
// written by an attempt whose answer got lost, or by somebody else.
func (d *decision) applied(o Observation) {
	z := o.Zone
	switch required := z.required(); {
	case o.Ready, z.settled():
		d.publish()
	case required == dns.ReadUnreliable:
		d.unreliable(z)
	case required != "":
		d.require(required, z.Message)
	default:
		d.moved()
	}
}

// publish goes on to see the records on all servers.
func (d *decision) publish() {
	if d.Stage == StagePlan || d.Stage == StageApply {
		d.enter(StagePropagation, ReadDNS)
		return
	}
	d.goOn(ReadDNS)
}

// read goes on when all servers show the records in two reads.
func (d *decision) read(o Observation) {
	switch {
	case d.disturbed(o.Zone):
	case !o.Shown:
		d.SeenAt = time.Time{}
		d.wait(0)
	case d.SeenAt.IsZero() || d.SeenAt.After(d.Now):
		d.SeenAt = d.Now
		d.until(d.Between)
	case d.Now.Sub(d.SeenAt) < d.Between:
		d.until(d.Between - d.Now.Sub(d.SeenAt))
	default:
		d.published()
	}
}

// disturbed settles what somebody else did to the zone after it was written:
// what stands there now blocks, or the provider does not hold our records.
func (d *decision) disturbed(z Zone) bool {
	switch {
	case z.Reliable && z.Conflict:
		d.require(dns.ConflictToSettle, z.messageOf(dns.ConflictToSettle))
	case z.Reliable && z.Held && z.Changes:
		d.moved()
	default:
		return false
	}
	return true
}

func (d *decision) published() {
	d.PublishedAt = d.Now
	if d.Stage == StagePropagation {
		d.enter(StageDomainVerification, Verify)
		return
	}
	d.enter(StageDKIMEnablement, EnableDKIM)
}

// platform goes on when the mail platform has done what was asked.
func (d *decision) platform(o Observation) {
	switch {
	case !o.Ready:
		d.notYet(o.Zone, 0)
	case d.Next == Verify:
		d.goOn(EnableMail)
	case d.Next == EnableMail:
		d.enter(StageDKIMPublication, EnsureSigning)
	case d.Next == EnsureSigning:
		d.goOn(Plan)
	default:
		d.enter(StageHealth, Validate)
	}
}

// validated ends the job when nothing is missing.
func (d *decision) validated(o Observation) {
	switch z := o.Zone; {
	case d.disturbed(z):
	case !z.Reliable:
		d.unreliable(z)
	case z.Changes:
		d.moved()
	case !o.Ready:
		d.wait(0)
	default:
		d.complete()
	}
}

// unreliable waits for a reliable read, but not for ever.
func (d *decision) unreliable(z Zone) {
	if d.UnreliableSince.IsZero() || d.UnreliableSince.After(d.Now) {
		d.UnreliableSince = d.Now
	}
	if since(d.UnreliableSince, d.Now) >= d.Unreliable {
		d.require(dns.ReadUnreliable, z.messageOf(dns.ReadUnreliable))
		return
	}
	d.wait(0)
}

// moved plans anew for a zone that is not what was planned from. Nothing of
// what somebody else wrote there is overwritten.
func (d *decision) moved() {
	if d.Moves++; d.Moves >= mostMoves {
		d.require(ZoneChanged, "")
		return
	}
	d.enter(d.Stage.planning(), Plan)
	d.Attempt = d.Moves - 1
	d.wait(0)
	d.Message = messageMoved
}

// messageOf is what the plan says of what is required, unless it had something
// else to say of who holds the zone.
func (z Zone) messageOf(what dns.ActionRequired) string {
	if z.Required == what {
		return z.Message
	}
	return ""
}
