// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// afterPlan continues with the write of the plan, unless the plan requires an action. If the zone
// needs no write, for example because a person published the records, the job skips the write.
func (d *decision) afterPlan(z Zone) {
	switch required := z.requiredAction(); {
	case z.needsNoWrite():
		d.awaitPublication()
	case required == "":
		d.PlanHash = z.Hash
		if d.Stage == StagePlan {
			d.enterStage(StageApply, Apply)
			return
		}
		d.enterStep(Apply)
	case required == dns.ReadUnreliable:
		d.waitForReliableRead(z)
	default:
		d.require(required, z.Message)
	}
}

// afterApply continues once the plan is written. It also continues if the new plan has no changes.
// In this case someone else wrote the records, or an earlier attempt wrote them and its answer was
// lost.
func (d *decision) afterApply(o Observation) {
	z := o.Zone
	switch required := z.requiredAction(); {
	case o.Ready, z.needsNoWrite():
		d.awaitPublication()
	case required == dns.ReadUnreliable:
		d.waitForReliableRead(z)
	case required != "":
		d.require(required, z.Message)
	default:
		d.replan()
	}
}

func (d *decision) awaitPublication() {
	if d.Stage == StagePlan || d.Stage == StageApply {
		d.enterStage(StagePropagation, ReadDNS)
		return
	}
	d.enterStep(ReadDNS)
}

// afterRead continues when two reads, at least BetweenReads apart, show the records on all servers.
func (d *decision) afterRead(o Observation) {
	switch {
	case d.handleZoneChange(o.Zone):
	case !o.RecordsVisible:
		d.VisibleSince = time.Time{}
		d.wait(0)
	case d.VisibleSince.IsZero() || d.VisibleSince.After(d.Now):
		d.VisibleSince = d.Now
		d.waitFor(d.BetweenReads)
	case d.Now.Sub(d.VisibleSince) < d.BetweenReads:
		d.waitFor(d.BetweenReads - d.Now.Sub(d.VisibleSince))
	default:
		d.confirmPublication()
	}
}

// handleZoneChange handles a change of the zone by someone else after the write. It acts on a new
// conflict and on records that are missing at the provider. It returns false if it did not change
// the job.
func (d *decision) handleZoneChange(z Zone) bool {
	switch {
	case z.Reliable && z.Conflict:
		d.require(dns.ConflictToResolve, z.messageOf(dns.ConflictToResolve))
	case z.Reliable && z.FromProvider && z.Changes:
		d.replan()
	default:
		return false
	}
	return true
}

func (d *decision) confirmPublication() {
	d.PublishedAt = d.Now
	if d.Stage == StagePropagation {
		d.enterStage(StageDomainVerification, Verify)
		return
	}
	d.enterStage(StageDKIMEnablement, EnableDKIM)
}

func (d *decision) afterPlatformStep(o Observation) {
	switch {
	case !o.Ready:
		d.waitForPlatform(o.Zone, 0)
	case d.Next == Verify:
		d.enterStep(EnableMail)
	case d.Next == EnableMail:
		d.enterStage(StageDKIMPublication, EnsureSigning)
	case d.Next == EnsureSigning:
		d.enterStep(Plan)
	default:
		d.enterStage(StageHealth, Validate)
	}
}

// afterValidate completes the job when all records are published and the platform signs. An
// incomplete plan (see dns.Plan.Incomplete) does not show whether all records are published.
func (d *decision) afterValidate(o Observation) {
	switch z := o.Zone; {
	case d.handleZoneChange(z):
	case !z.Reliable:
		d.waitForReliableRead(z)
	case z.Changes:
		d.replan()
	case !o.Ready:
		d.wait(0)
	case z.Incomplete:
		if d.wait(0); d.RequiredAction == DKIMTimeout {
			d.Message = messageIncomplete
		}
	default:
		d.complete()
	}
}

// replan returns to the planning stage after the zone changed, so that the job does not overwrite
// values that someone else wrote. After maxZoneChanges changes the job requires an action.
func (d *decision) replan() {
	if d.ZoneChanges++; d.ZoneChanges >= maxZoneChanges {
		d.require(ZoneChanged, "")
		return
	}
	d.enterStage(d.Stage.planStage(), Plan)
	d.Attempt = d.ZoneChanges - 1
	d.wait(0)
	d.Message = messageZoneChanged
}

// messageOf returns the plan's message if the plan requires this action, otherwise "".
func (z Zone) messageOf(action dns.ActionRequired) string {
	if z.Required == action {
		return z.Message
	}
	return ""
}
