// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// Begin is what a worker does first with a job that it has claimed.
func Begin(j Job, now time.Time) (Job, Step) {
	if !j.Status.due() {
		return j, None
	}
	if j.StartedAt.IsZero() {
		j.StartedAt = now
	}
	if j.Stage == StageQueued {
		d := decision{Moment: Moment{Now: now}, Job: j}
		d.enter(StagePlan, Plan)
		j = d.Job
	}
	j.Status, j.UpdatedAt = Running, now
	return j, j.Next
}

// Advance decides what becomes of a running job, given what its step found out.
// The step that it returns is to be done at once, or is Wait or None. A job that
// is not running stays as it is.
func (t Timetable) Advance(j Job, o Observation, at Moment) (Job, Step) {
	if j.Status != Running {
		return j, j.step()
	}
	d := decision{Timetable: t, Moment: at, Job: j}
	d.UpdatedAt = at.Now
	if d.Next == Apply && o.WriteErr != nil {
		d.unwritten(o)
	} else if d.reached(o.Err, o.Zone) {
		d.decide(o)
	}
	return d.Job, d.step()
}

// decision is a job while it is decided on.
type decision struct {
	Timetable
	Moment
	Job
}

func (d *decision) decide(o Observation) {
	if o.NegativeTTL > 0 {
		d.NegativeTTL = o.NegativeTTL
	}
	if o.Zone.Provider != "" {
		d.Provider = o.Zone.Provider
	}
	if o.Zone.Reliable {
		d.UnreliableSince = time.Time{}
	}
	switch d.Next {
	case Plan:
		d.planned(o.Zone)
	case Apply:
		d.applied(o)
	case ReadDNS:
		d.read(o)
	case Validate:
		d.validated(o)
	default:
		d.platform(o)
	}
}

// reached reports whether a step has an answer to decide on, and else settles
// what becomes of the job.
func (d *decision) reached(err error, z Zone) bool {
	e, told := judge(err)
	d.note(e)
	switch e {
	case answered:
		return true
	case notYet:
		d.notYet(z, told)
	case away:
		d.away(told)
	case lost:
		d.wait(0)
	case denied:
		d.require(TenantAccessLost, "")
	case taken:
		d.require(DomainUnavailable, "")
	case gone:
		d.fail(messageGone)
	case refused:
		d.fail(fmt.Sprintf(messageRefused, fault.Of(err).Detail))
	default:
		d.fault()
	}
	return false
}

// unwritten settles a write that the DNS provider did not do, or may have done:
// then it is done again, which adopts what is there.
func (d *decision) unwritten(o Observation) {
	err := o.WriteErr
	e, _ := judge(err)
	switch {
	case dns.IsChanged(err):
		d.note(answered)
		d.moved()
	case dns.IsNoZone(err):
		d.note(answered)
		d.require(dns.ConnectionRequired, "")
	case e == denied:
		d.note(answered)
		d.require(dns.CredentialNotAccepted, "")
	default:
		d.reached(err, o.Zone)
	}
}

// note keeps count of faults in a row, and of the time that somebody was away.
func (d *decision) note(e ending) {
	if e != ours {
		d.Faults = 0
	}
	switch {
	case e == away && d.AwaySince.IsZero():
		d.AwaySince = d.Now
	case e != away && !d.AwaySince.IsZero():
		d.Away, d.AwaySince = d.Away+since(d.AwaySince, d.Now), time.Time{}
	}
}

// enter goes on to another stage, whose clocks start anew.
func (d *decision) enter(s Stage, next Step) {
	d.Stage, d.Since, d.Away, d.AwaySince = s, d.Now, 0, time.Time{}
	d.goOn(next)
}

// goOn goes on to another step.
func (d *decision) goOn(next Step) {
	d.Next, d.Attempt, d.SeenAt, d.UnreliableSince = next, 0, time.Time{}, time.Time{}
	d.Status, d.NextAttemptAt, d.Required, d.Message = Running, d.Now, "", ""
}

// wait pauses before the same step, at least that long, unless the stage has
// taken too long already.
func (d *decision) wait(least time.Duration) {
	if d.overdue(d.Job, d.Now) {
		d.require(d.Stage.timeout(), "")
		return
	}
	pause := max(min(least, d.Told), d.pause(d.Attempt, d.Chance))
	d.Attempt++
	d.until(pause)
}

func (d *decision) until(pause time.Duration) {
	d.Status, d.NextAttemptAt, d.Message = Waiting, d.Now.Add(pause), waits[d.Stage]
}

// notYet waits for the platform. What it does not see may be gone; and a record
// that it looked for too early stays unseen for as long as resolvers remember
// that it was not there.
func (d *decision) notYet(z Zone, told time.Duration) {
	if d.Next == Verify || d.Next == EnableDKIM {
		if d.disturbed(z) {
			return
		}
		remembered := min(d.NegativeTTL, d.Told) - since(d.PublishedAt, d.Now)
		told = max(told, remembered)
	}
	d.wait(told)
}

// away waits as it is told, longer each time.
func (d *decision) away(told time.Duration) {
	d.wait(told)
	if d.Status == Waiting {
		d.Message += waitsForProvider
		return
	}
	d.Message += awayAtTheEnd
}

func (d *decision) fault() {
	if d.Faults++; d.Faults >= mostFaults {
		d.fail(messageFaults)
		return
	}
	d.wait(0)
}

// require leaves the job to a person.
func (d *decision) require(what dns.ActionRequired, message string) {
	d.Status, d.Required, d.Message = ActionRequired, what, cmp.Or(message, advice[what])
}

func (d *decision) fail(message string) {
	d.Status, d.Next, d.Message, d.EndedAt = Failed, None, message, d.Now
}

func (d *decision) complete() {
	d.enter(StageDone, None)
	d.Status, d.EndedAt = Completed, d.Now
}
