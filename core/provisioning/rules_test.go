// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// rule is what becomes of a job that comes to a step some way, has been there for
// some time, and makes one observation.
type rule struct {
	name   string
	way    []string
	past   func(j *Job, now time.Time)
	sees   string
	stage  Stage
	status Status
	next   Step
	code   dns.ActionRequired
	pause  time.Duration // of one that waits
}

func (r rule) run(t *testing.T) {
	j := sees(t, fresh(), r.way...)
	now := j.NextAttemptAt.Add(time.Minute)
	j, _ = Begin(j, now)
	if r.past != nil {
		r.past(&j, now)
	}
	got, step := Usual.Advance(j, named(t, r.sees), at(now))
	if got.Stage != r.stage || got.Status != r.status || got.Next != r.next || got.Required != r.code {
		t.Fatalf("got %s, %s, next %q, code %q", got.Stage, got.Status, got.Next, got.Required)
	}
	want := map[Status]Step{Running: r.next, Waiting: Wait}[r.status]
	if step != want {
		t.Errorf("the step is %q, want %q", step, want)
	}
	if r.status == Waiting && !got.NextAttemptAt.Equal(now.Add(r.pause)) {
		t.Errorf("it waits %s, want %s", got.NextAttemptAt.Sub(now), r.pause)
	}
	if r.status == Running && (got.Message != "" || !got.NextAttemptAt.Equal(now)) {
		t.Errorf("it runs with %q at %s", got.Message, got.NextAttemptAt)
	}
	if r.status != Running && r.status != Completed && got.Message == "" {
		t.Error("it says nothing")
	}
	if ended := r.status == Completed || r.status == Failed; ended != got.EndedAt.Equal(now) {
		t.Errorf("it ended at %s", got.EndedAt)
	}
	if !got.UpdatedAt.Equal(now) {
		t.Errorf("it was updated at %s", got.UpdatedAt)
	}
}

const first = 15 * time.Second

func overdue(j *Job, now time.Time)    { j.Since = now.Add(-48 * time.Hour) }
func almost(j *Job, now time.Time)     { j.Since = now.Add(-48*time.Hour + time.Second) }
func movedOnce(j *Job, _ time.Time)    { j.Moves = 1 }
func movedTwice(j *Job, _ time.Time)   { j.Moves = 2 }
func blindHour(j *Job, now time.Time)  { j.UnreliableSince = now.Add(-time.Hour) }
func almostHour(j *Job, now time.Time) { j.UnreliableSince = now.Add(-time.Hour + time.Second) }
func seen10s(j *Job, now time.Time)    { j.SeenAt = now.Add(-10 * time.Second) }
func seen4s(j *Job, now time.Time)     { j.SeenAt = now.Add(-4 * time.Second) }
func seenLater(j *Job, now time.Time)  { j.SeenAt = now.Add(time.Hour) } // the clock was set back
func blindLater(j *Job, now time.Time) { j.UnreliableSince = now.Add(time.Hour) }
func faultless19(j *Job, _ time.Time)  { j.Faults = 19 }
func publishedAgo(ago, negative time.Duration) func(*Job, time.Time) {
	return func(j *Job, now time.Time) { j.PublishedAt, j.NegativeTTL = now.Add(-ago), negative }
}

func TestRules(t *testing.T) {
	for _, r := range []rule{
		{name: "a plan that may be written is", sees: "changes", stage: StageApply, status: Running, next: Apply},
		{name: "a plan without changes goes on to look", sees: "settled", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "a plan that blocks", sees: "conflict", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.ConflictToSettle},
		{name: "a plan that blocks, without words", sees: "conflict, unworded", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.ConflictToSettle},
		{name: "an unreliable read may have made a conflict up", sees: "conflict, unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "records that were published by hand", sees: "by hand", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "no connection", sees: "no connection", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.ConnectionRequired},
		{name: "an unsupported provider", sees: "unsupported", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.ProviderUnsupported},
		{name: "a credential that is not taken", sees: "credential", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.CredentialNotAccepted},
		{name: "an unreliable read waits", sees: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "a read that was not made waits", sees: "nothing", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "almost an hour of unreliable reads", past: almostHour, sees: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "an hour of unreliable reads", past: blindHour, sees: "unreliable", stage: StagePlan, status: ActionRequired, next: Plan, code: dns.ReadUnreliable},
		{name: "an hour that begins when the clock was set back", past: blindLater, sees: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: first},

		{name: "a written plan goes on", way: toApply, sees: "written", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "nothing left to write goes on", way: toApply, sees: "settled", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "another plan is planned anew", way: toApply, sees: "other changes", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "a zone that moved while it was written too", way: toApply, sees: "zone moved", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "the second time", way: toApply, past: movedOnce, sees: "zone moved", stage: StagePlan, status: Waiting, next: Plan, pause: 2 * first},
		{name: "three times", way: toApply, past: movedTwice, sees: "zone moved", stage: StageApply, status: ActionRequired, next: Apply, code: ZoneChanged},
		{name: "three times another plan", way: toApply, past: movedTwice, sees: "other changes", stage: StageApply, status: ActionRequired, next: Apply, code: ZoneChanged},
		{name: "a new plan that blocks", way: toApply, sees: "conflict", stage: StageApply, status: ActionRequired, next: Apply, code: dns.ConflictToSettle},
		{name: "a zone that is out of reach", way: toApply, sees: "no zone", stage: StageApply, status: ActionRequired, next: Apply, code: dns.ConnectionRequired},
		{name: "a credential that was withdrawn", way: toApply, sees: "credential at write", stage: StageApply, status: ActionRequired, next: Apply, code: dns.CredentialNotAccepted},
		{name: "a lost write is done again", way: toApply, sees: "write lost", stage: StageApply, status: Waiting, next: Apply, pause: first},
		{name: "a throttled write waits as told", way: toApply, sees: "write throttled", stage: StageApply, status: Waiting, next: Apply, pause: time.Minute},
		{name: "a write that is refused for good", way: toApply, sees: "write refused", stage: StageApply, status: Failed},
		{name: "an unreliable read before the write", way: toApply, sees: "unreliable", stage: StageApply, status: Waiting, next: Apply, pause: first},
		{name: "a write that never comes back", way: toApply, past: overdue, sees: "write lost", stage: StageApply, status: ActionRequired, next: Apply, code: PropagationTimeout},
		{name: "what a write says counts at a write alone", sees: "write refused", stage: StageApply, status: Running, next: Apply},

		{name: "one read proves nothing", way: toRead, sees: "settled and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 10 * time.Second},
		{name: "nor two within 10 s", way: toRead, past: seen4s, sees: "settled and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 6 * time.Second},
		{name: "two 10 s apart do", way: toRead, past: seen10s, sees: "settled and shown", stage: StageDomainVerification, status: Running, next: Verify},
		{name: "but not by a clock that was set back", way: toRead, past: seenLater, sees: "settled and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 10 * time.Second},
		{name: "not shown", way: toRead, sees: "not shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: first},
		{name: "not shown for almost 48 h", way: toRead, past: almost, sees: "not shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: first},
		{name: "not shown for 48 h", way: toRead, past: overdue, sees: "not shown", stage: StagePropagation, status: ActionRequired, next: ReadDNS, code: PropagationTimeout},
		{name: "the customer took it out again", way: toRead, sees: "changes", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "what an unreliable read tells of conflicts", way: toRead, sees: "conflict, unreliable", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: first},
		{name: "the customer put something in its way", way: toRead, sees: "conflict", stage: StagePropagation, status: ActionRequired, next: ReadDNS, code: dns.ConflictToSettle},

		{name: "verified", way: toVerify, sees: "ready", stage: StageDomainVerification, status: Running, next: EnableMail},
		{name: "not verified", way: toVerify, past: publishedAgo(time.Hour, time.Minute), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: first},
		{name: "not verified so soon after the publication", way: toVerify, sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "they remember for an hour from the publication on", way: toVerify, past: publishedAgo(40*time.Minute, 24*time.Hour), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 20 * time.Minute},
		{name: "not verified while resolvers remember", way: toVerify, past: publishedAgo(time.Minute, 30*time.Minute), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "they remember for an hour at most", way: toVerify, past: publishedAgo(0, 24*time.Hour), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: time.Hour},
		{name: "not verified for 48 h", way: toVerify, past: overdue, sees: "not verified", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: VerificationTimeout},
		{name: "not verified, as the record is gone", way: toVerify, sees: "not verified, touched", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "not ready, as something is in its way", way: toVerify, sees: "conflict", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: dns.ConflictToSettle},
		{name: "another tenant's", way: toVerify, sees: "taken", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: DomainUnavailable},
		{name: "consent is gone", way: toVerify, sees: "access denied", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: TenantAccessLost},
		{name: "the domain is gone", way: toVerify, sees: "gone", stage: StageDomainVerification, status: Failed},
		{name: "e-mail service", way: toMail, sees: "ready", stage: StageDKIMPublication, status: Running, next: EnsureSigning},
		{name: "e-mail service is not ready", way: toMail, past: publishedAgo(0, time.Hour), sees: "nothing", stage: StageDomainVerification, status: Waiting, next: EnableMail, pause: first},
		{name: "e-mail service takes 48 h", way: toMail, past: overdue, sees: "not ready", stage: StageDomainVerification, status: ActionRequired, next: EnableMail, code: VerificationTimeout},

		{name: "DKIM records", way: toSigning, sees: "ready", stage: StageDKIMPublication, status: Running, next: Plan},
		{name: "no DKIM records in 48 h", way: toSigning, past: overdue, sees: "not ready", stage: StageDKIMPublication, status: ActionRequired, next: EnsureSigning, code: DKIMTimeout},
		{name: "DKIM plan", way: toDKIMPlan, sees: "changes", stage: StageDKIMPublication, status: Running, next: Apply},
		{name: "DKIM plan without a connection", way: toDKIMPlan, sees: "no connection", stage: StageDKIMPublication, status: ActionRequired, next: Plan, code: dns.ConnectionRequired},
		{name: "DKIM plan without changes", way: toDKIMPlan, sees: "settled", stage: StageDKIMPublication, status: Running, next: ReadDNS},
		{name: "DKIM written", way: toDKIMApply, sees: "written", stage: StageDKIMPublication, status: Running, next: ReadDNS},
		{name: "DKIM moved", way: toDKIMApply, sees: "zone moved", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: first},
		{name: "DKIM seen", way: toDKIMRead, past: seen10s, sees: "settled and shown", stage: StageDKIMEnablement, status: Running, next: EnableDKIM},
		{name: "DKIM not seen in 48 h", way: toDKIMRead, past: overdue, sees: "not shown", stage: StageDKIMPublication, status: ActionRequired, next: ReadDNS, code: DKIMTimeout},
		{name: "signing", way: toEnable, sees: "ready", stage: StageHealth, status: Running, next: Validate},
		{name: "not signing, as the platform remembers", way: toEnable, past: publishedAgo(time.Minute, 11*time.Minute), sees: "not ready", stage: StageDKIMEnablement, status: Waiting, next: EnableDKIM, pause: 10 * time.Minute},
		{name: "not signing, as the records are gone", way: toEnable, sees: "changes", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: first},
		{name: "not signing in 48 h", way: toEnable, past: overdue, sees: "not ready", stage: StageDKIMEnablement, status: ActionRequired, next: EnableDKIM, code: DKIMTimeout},

		{name: "healthy", way: toValidate, sees: "settled and ready", stage: StageDone, status: Completed},
		{name: "healthy but not signing", way: toValidate, sees: "settled", stage: StageHealth, status: Waiting, next: Validate, pause: first},
		{name: "something is missing", way: toValidate, sees: "not shown", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: first},
		{name: "missing the third time", way: toValidate, past: movedTwice, sees: "changes", stage: StageHealth, status: ActionRequired, next: Validate, code: ZoneChanged},
		{name: "something is in the way", way: toValidate, sees: "conflict", stage: StageHealth, status: ActionRequired, next: Validate, code: dns.ConflictToSettle},
		{name: "the last read is not reliable", way: toValidate, sees: "unreliable", stage: StageHealth, status: Waiting, next: Validate, pause: first},
		{name: "nor for an hour", way: toValidate, past: blindHour, sees: "unreliable", stage: StageHealth, status: ActionRequired, next: Validate, code: dns.ReadUnreliable},

		{name: "throttled", sees: "throttled", stage: StagePlan, status: Waiting, next: Plan, pause: 5 * time.Minute},
		{name: "down", sees: "down", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "down for as long as a provider likes", sees: "away for long", stage: StagePlan, status: Waiting, next: Plan, pause: time.Hour},
		{name: "the database is away", sees: "database away", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "broken", sees: "broken", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "refused for good", sees: "refused", stage: StagePlan, status: Failed},
		{name: "a fault of ours", sees: "ours", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "the twentieth in a row", past: faultless19, sees: "ours", stage: StagePlan, status: Failed},
		{name: "the clock was set back by days", way: toRead, past: func(j *Job, now time.Time) { j.Since = now.Add(99 * time.Hour) }, sees: "not shown",
			stage: StagePropagation, status: Waiting, next: ReadDNS, pause: first},
	} {
		t.Run(r.name, r.run)
	}
}
