// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
)

// BeginAttempt starts an attempt of a job that a worker has claimed. It returns the job as Running
// and the step to do. If the job has no next attempt, BeginAttempt returns it unchanged with None.
//
// The attempt counts as a fault until one of its steps ends without a fault. A job that kills its
// worker at every attempt therefore fails: after maxFaults such attempts, BeginAttempt returns the
// job as Failed.
func (p RetryPolicy) BeginAttempt(j Job, now time.Time) (Job, Step) {
	if !j.Status.HasNextAttempt() {
		return j, None
	}
	if j.StartedAt.IsZero() {
		j.StartedAt = now
	}
	if j.Stage == StageQueued {
		d := decision{Moment: Moment{Now: now}, Job: j}
		d.enterStage(StagePlan, Plan)
		j = d.Job
	}
	if !p.CountIdle {
		j.excludeIdle(elapsed(j.NextAttemptAt, now))
	}
	j.Status, j.NextAttemptAt, j.UpdatedAt = Running, now, now
	if j.Faults++; j.Faults > maxFaults {
		d := decision{Moment: Moment{Now: now}, Job: j}
		d.fail(messageFaults)
		j = d.Job
	}
	return j, j.Next
}

// CancelAttempt returns the job without the fault that BeginAttempt counted for the attempt. If a
// step of the attempt has ended without a fault, Faults is already 0, and CancelAttempt returns the
// job unchanged. A worker calls CancelAttempt when its own stop interrupts the attempt.
func CancelAttempt(j Job) Job {
	j.Faults = max(j.Faults-1, 0)
	return j
}

// excludeIdle moves the start times of the job's time limits forward by the time for which the job
// was due and not attempted. A job is not attempted while its account is suspended or no worker
// runs.
func (j *Job) excludeIdle(idle time.Duration) {
	for _, began := range []*time.Time{&j.StageSince, &j.OutageSince, &j.UnreliableSince, &j.MissingSince} {
		if !began.IsZero() {
			*began = began.Add(idle)
		}
	}
}

// Advance returns the job after the observation of its step, and the next step. The caller performs
// the next step at once, unless it is Wait or None. Advance returns a job that is not Running
// unchanged.
func (p RetryPolicy) Advance(j Job, o Observation, at Moment) (Job, Step) {
	if j.Status != Running {
		return j, j.currentStep()
	}
	d := decision{RetryPolicy: p, Moment: at, Job: j}
	d.UpdatedAt = at.Now
	if d.Next == Apply && o.WriteErr != nil {
		d.writeFailed(o)
	} else if d.checkError(o.Err, o.Zone) {
		d.decide(o)
	}
	return d.Job, d.currentStep()
}

// decision is a job that is being changed, with the inputs of the decision.
type decision struct {
	RetryPolicy
	Moment
	Job
}

// decide updates the job for an observation without an error.
func (d *decision) decide(o Observation) {
	if o.NegativeTTL > 0 {
		d.NegativeTTL = o.NegativeTTL
	}
	if o.Zone.Provider != "" {
		d.Provider = o.Zone.Provider
	}
	if o.Zone.Reliable && o.Zone.Required != dns.ReadUnreliable {
		d.UnreliableSince = time.Time{}
	}
	switch d.Next {
	case Plan:
		d.afterPlan(o.Zone)
	case Apply:
		d.afterApply(o)
	case ReadDNS:
		d.afterRead(o)
	case Validate:
		d.afterValidate(o)
	default:
		d.afterPlatformStep(o)
	}
}

// checkError returns true if the step did not fail. If it failed, checkError updates the job for
// the error and returns false.
func (d *decision) checkError(err error, z Zone) bool {
	class, minWait := classify(err)
	d.trackErrors(class)
	switch class {
	case answered:
		return true
	case notYet:
		d.waitForPlatform(z, minWait)
	case unavailable:
		d.waitForProvider(minWait)
	case outcomeUnknown:
		d.wait(0)
	case accessDenied:
		d.require(TenantAccessLost, "")
	case domainTaken:
		d.require(DomainUnavailable, "")
	case domainMissing:
		d.waitForDomain()
	case domainGone:
		d.fail(messageGone)
	case refused:
		d.fail(fmt.Sprintf(messageRefused, fault.ErrorOf(err).Detail))
	case unexplained:
		detail := fault.ErrorOf(err).Detail
		d.countFault(fmt.Sprintf(messageRefused, detail))
		if d.Status == Waiting {
			d.Message += fmt.Sprintf(suffixRefused, detail)
		}
	default:
		d.countFault(messageFaults)
	}
	return false
}

// writeFailed updates the job after the write at the DNS provider has failed. If the outcome of the
// write is unknown, the job repeats the step Apply, whose new plan shows whether the write took
// effect.
func (d *decision) writeFailed(o Observation) {
	err := o.WriteErr
	class, _ := classify(err)
	switch {
	case dns.IsChanged(err):
		d.trackErrors(answered)
		d.replan()
	case dns.IsOverlapped(err):
		d.trackErrors(answered)
		d.require(ZoneChanged, messageOverlapped)
	case dns.IsNoZone(err):
		d.trackErrors(answered)
		d.require(dns.ConnectionRequired, "")
	case class == accessDenied:
		d.trackErrors(answered)
		d.require(dns.CredentialRejected, "")
	default:
		d.checkError(err, o.Zone)
	}
}

// trackErrors resets Faults unless the error is an internal fault or an unexplained refusal, and
// MissingSince unless the domain is missing. It also records when a provider's outage begins or
// ends.
func (d *decision) trackErrors(class errorClass) {
	if class != internalFault && class != unexplained {
		d.Faults = 0
	}
	if class != domainMissing {
		d.MissingSince = time.Time{}
	}
	switch {
	case class == unavailable && d.OutageSince.IsZero():
		d.OutageSince = d.Now
	case class != unavailable && !d.OutageSince.IsZero():
		d.OutageTime, d.OutageSince = d.OutageTime+elapsed(d.OutageSince, d.Now), time.Time{}
	}
}

// enterStage moves the job to the beginning of a stage, and restarts the time limit.
func (d *decision) enterStage(s Stage, next Step) {
	d.Stage, d.StageSince, d.OutageTime, d.OutageSince = s, d.Now, 0, time.Time{}
	d.enterStep(next)
}

// enterStep moves the job to a step, and resets the progress of the previous step.
func (d *decision) enterStep(next Step) {
	d.Next, d.Attempt, d.VisibleSince, d.UnreliableSince = next, 0, time.Time{}, time.Time{}
	d.Status, d.NextAttemptAt, d.RequiredAction, d.Message = Running, d.Now, "", ""
}

// wait schedules the same step again. The pause is at least minPause, but a minPause above MaxWait
// counts as MaxWait. If the stage has exceeded its time limit, the job requires an action instead.
func (d *decision) wait(minPause time.Duration) {
	if d.isOverdue(d.Job, d.Now) {
		d.require(d.Stage.timeoutAction(), "")
		return
	}
	pause := max(min(minPause, d.MaxWait), d.pause(d.Attempt, d.Chance))
	d.Attempt++
	d.waitFor(pause)
}

// waitFor schedules the same step again after exactly this pause.
func (d *decision) waitFor(pause time.Duration) {
	d.Status, d.NextAttemptAt, d.Message = Waiting, d.Now.Add(pause), waitMessages[d.Stage]
}

// waitForPlatform waits until the mail platform can complete the step. The steps Verify and
// EnableDKIM depend on published records. For them, waitForPlatform first checks that the records
// are still in the zone. The pause then lasts at least until resolvers no longer cache the absence
// of the records, as far as MaxWait allows this.
func (d *decision) waitForPlatform(z Zone, minWait time.Duration) {
	if d.Next == Verify || d.Next == EnableDKIM {
		if d.handleZoneChange(z) {
			return
		}
		cachedFor := min(d.NegativeTTL, d.MaxWait) - elapsed(d.PublishedAt, d.Now)
		minWait = max(minWait, cachedFor)
	}
	d.wait(minWait)
}

// waitForProvider waits for the time that the unavailable provider demands, up to MaxWait, or for
// the backoff, whichever is longer.
func (d *decision) waitForProvider(minWait time.Duration) {
	d.wait(minWait)
	if d.Status == Waiting {
		d.Message += suffixUnavailable
		return
	}
	d.Message += suffixUnavailableAtEnd
}

// waitForReliableRead waits for a reliable read or for the plugin of a DNS provider, for at most
// RetryPolicy.UnreliableLimit.
func (d *decision) waitForReliableRead(z Zone) {
	if d.UnreliableSince.IsZero() || d.UnreliableSince.After(d.Now) {
		d.UnreliableSince = d.Now
	}
	if elapsed(d.UnreliableSince, d.Now) >= d.UnreliableLimit {
		d.require(dns.ReadUnreliable, z.messageOf(dns.ReadUnreliable))
		return
	}
	d.wait(0)
}

// waitForDomain waits until the missing domain is found again. The platform's replicas lag, so the
// job fails only after the domain has been missing for observation.ReplicaLag.
func (d *decision) waitForDomain() {
	if observation.IsGone(d.MissingSince, d.Now) {
		d.fail(messageGone)
		return
	}
	if d.MissingSince.IsZero() {
		d.MissingSince = d.Now
	}
	d.wait(0)
	if d.Status == Waiting {
		d.Message += suffixMissing
	}
}

// countFault waits after an internal fault, or after a refusal that can be a fault of the provider.
// The job fails with the message after maxFaults consecutive faults. BeginAttempt has already
// counted this fault, unless an earlier step of the attempt has reset Faults.
func (d *decision) countFault(message string) {
	if d.Faults = max(d.Faults, 1); d.Faults >= maxFaults {
		d.fail(message)
		return
	}
	d.wait(0)
}

func (d *decision) require(action dns.ActionRequired, message string) {
	d.Status, d.RequiredAction, d.Message = ActionRequired, action, cmp.Or(message, actionMessages[action])
}

func (d *decision) fail(message string) {
	d.Status, d.Next, d.Message, d.EndedAt = Failed, None, message, d.Now
}

func (d *decision) complete() {
	d.enterStage(StageDone, None)
	d.Status, d.EndedAt = Completed, d.Now
}
