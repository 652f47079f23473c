// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
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
func published(ago, negative time.Duration) func(*Job, time.Time) {
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
		{name: "not verified", way: toVerify, past: published(time.Hour, time.Minute), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: first},
		{name: "not verified so soon after the publication", way: toVerify, sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "they remember for an hour from the publication on", way: toVerify, past: published(40*time.Minute, 24*time.Hour), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 20 * time.Minute},
		{name: "not verified while resolvers remember", way: toVerify, past: published(time.Minute, 30*time.Minute), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "they remember for an hour at most", way: toVerify, past: published(0, 24*time.Hour), sees: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: time.Hour},
		{name: "not verified for 48 h", way: toVerify, past: overdue, sees: "not verified", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: VerificationTimeout},
		{name: "not verified, as the record is gone", way: toVerify, sees: "not verified, touched", stage: StagePlan, status: Waiting, next: Plan, pause: first},
		{name: "not ready, as something is in its way", way: toVerify, sees: "conflict", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: dns.ConflictToSettle},
		{name: "another tenant's", way: toVerify, sees: "taken", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: DomainUnavailable},
		{name: "consent is gone", way: toVerify, sees: "access denied", stage: StageDomainVerification, status: ActionRequired, next: Verify, code: TenantAccessLost},
		{name: "the domain is gone", way: toVerify, sees: "gone", stage: StageDomainVerification, status: Failed},
		{name: "e-mail service", way: toMail, sees: "ready", stage: StageDKIMPublication, status: Running, next: EnsureSigning},
		{name: "e-mail service is not ready", way: toMail, past: published(0, time.Hour), sees: "nothing", stage: StageDomainVerification, status: Waiting, next: EnableMail, pause: first},
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
		{name: "not signing, as the platform remembers", way: toEnable, past: published(time.Minute, 11*time.Minute), sees: "not ready", stage: StageDKIMEnablement, status: Waiting, next: EnableDKIM, pause: 10 * time.Minute},
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

func TestTheWholeWay(t *testing.T) {
	j := sees(t, fresh(), toCompleted...)
	if j.Status != Completed || j.Stage != StageDone || j.Provider != "powerdns" || j.StartedAt.IsZero() || j.EndedAt.IsZero() || j.Required != "" {
		t.Fatalf("got %+v", j)
	}
}

func TestPausesGrow(t *testing.T) {
	j := sees(t, fresh(), toRead...)
	var pauses []time.Duration
	for range 9 {
		now := j.NextAttemptAt
		j, _ = Begin(j, now)
		j, _ = Usual.Advance(j, named(t, "not shown"), at(now))
		pauses = append(pauses, j.NextAttemptAt.Sub(now)/time.Second)
	}
	for i, want := range []time.Duration{15, 30, 60, 120, 240, 480, 900, 900, 900} {
		if pauses[i] != want {
			t.Fatalf("the pauses are %d", pauses)
		}
	}
	if d := Usual.pause(3, 0.5); d != 108*time.Second {
		t.Errorf("by half a chance it is %s", d)
	}
}

// What a provider takes of a stage's time does not count, up to a limit.
func TestAwayDoesNotCount(t *testing.T) {
	away := func(hours int) Job {
		j := sees(t, fresh(), toRead...)
		j, _ = Begin(j, j.NextAttemptAt)
		began := j.Since
		for h := range hours {
			j.Status = Running
			j, _ = Usual.Advance(j, Observation{Err: ends(outcome.Throttled, time.Hour)}, at(began.Add(time.Duration(h)*time.Hour)))
			if j.Status != Waiting {
				t.Fatalf("after %d h: %s", h, j.Status)
			}
		}
		j.Status = Running
		return j
	}
	j := away(40)
	for hours, want := range map[int]Status{87: Waiting, 88: ActionRequired} {
		answered, _ := Usual.Advance(j, named(t, "not shown"), at(j.Since.Add(40*time.Hour)))
		answered.Status = Running
		got, _ := Usual.Advance(answered, named(t, "not shown"), at(j.Since.Add(time.Duration(hours)*time.Hour)))
		if got.Status != want {
			t.Errorf("at %d h: %s", hours, got.Status)
		}
	}
	j = away(95)
	got, _ := Usual.Advance(j, named(t, "down"), at(j.Since.Add(96*time.Hour)))
	if got.Required != PropagationTimeout || !strings.Contains(got.Message, awayAtTheEnd) {
		t.Errorf("after 96 h: %s, %q", got.Required, got.Message)
	}
}

func TestAnAnswerEndsARowOfFaults(t *testing.T) {
	j, _ := Begin(fresh(), start)
	j.Faults = 19
	j, _ = Usual.Advance(j, named(t, "unreliable"), at(start))
	j.Status = Running
	if j, _ = Usual.Advance(j, named(t, "ours"), at(start)); j.Status != Waiting || j.Faults != 1 {
		t.Fatalf("got %s with %d faults", j.Status, j.Faults)
	}
}

// A reliable read ends an hour of unreliable ones, and one that does not show
// the records the first of two that do.
func TestWhatIsForgotten(t *testing.T) {
	j := sees(t, fresh(), toApply...)
	j, _ = Begin(j, start)
	j.UnreliableSince = start.Add(-59 * time.Minute)
	if got, _ := Usual.Advance(j, Observation{Zone: toWrite, WriteErr: nil, Ready: true}, at(start)); !got.UnreliableSince.IsZero() {
		t.Error("the hour goes on")
	}
	j = sees(t, fresh(), append(toRead[:2:2], "settled and shown", "not shown")...)
	if !j.SeenAt.IsZero() {
		t.Error("the first read still counts")
	}
	if j = sees(t, j, "settled and shown"); j.Stage != StagePropagation {
		t.Error("published after one more")
	}
}

// A new stage begins with clocks and counts of its own, another step with its own
// counts.
func TestWhatBeginsAnew(t *testing.T) {
	spent := func(way []string) Job {
		j := sees(t, fresh(), way...)
		j, _ = Begin(j, start)
		j.Attempt, j.Away, j.AwaySince, j.SeenAt, j.UnreliableSince = 5, time.Hour, start.Add(time.Hour), start, start
		return j
	}
	got, _ := Usual.Advance(spent(toMail), named(t, "ready"), at(start.Add(time.Minute)))
	if got.Attempt != 0 || got.Away != 0 || !got.AwaySince.IsZero() || !got.SeenAt.IsZero() || !got.UnreliableSince.IsZero() || !got.Since.Equal(start.Add(time.Minute)) {
		t.Errorf("a new stage begins with %+v", got.Progress)
	}
	// The clock was set back: nobody was away for less than no time.
	got, _ = Usual.Advance(spent(toVerify), named(t, "ready"), at(start.Add(time.Minute)))
	if got.Attempt != 0 || got.Away != time.Hour || !got.AwaySince.IsZero() || !got.SeenAt.IsZero() || !got.UnreliableSince.IsZero() {
		t.Errorf("another step begins with %+v", got.Progress)
	}
	got, _ = Usual.Advance(spent(toValidate), named(t, "settled"), at(start.Add(time.Minute)))
	if !got.UnreliableSince.IsZero() {
		t.Error("a reliable read does not end the hour")
	}
	got, _ = Usual.Advance(spent(nil), named(t, "unreliable"), at(start.Add(-time.Minute)))
	if !got.UnreliableSince.Equal(start.Add(-time.Minute)) {
		t.Error("an hour that has not begun is waited for")
	}
	if again, _ := Begin(got, start.Add(time.Hour)); !again.StartedAt.Equal(start) {
		t.Errorf("it began again at %s", again.StartedAt)
	}
}

func TestMayWrite(t *testing.T) {
	j := sees(t, fresh(), toApply...)
	for name, z := range map[string]Zone{"another": otherwise, "settled": settled, "blocked": blocked, "unclear": unclear, "nothing": {},
		"no connection": barred(dns.ConnectionRequired)} {
		if j.MayWrite(z) {
			t.Errorf("%s may be written", name)
		}
	}
	if !j.MayWrite(toWrite) {
		t.Error("the plan may not be written")
	}
	if fresh().MayWrite(toWrite) || sees(t, fresh(), toRead...).MayWrite(toWrite) {
		t.Error("it may be written before or after its time")
	}
}

// The words of a plan know more than ours; without any ours are shown.
func TestMessages(t *testing.T) {
	for name, want := range map[string]string{
		"no connection": "words of dns_connection_required", "conflict": blocked.Message,
		"access denied": advice[TenantAccessLost], "gone": messageGone,
		"refused":   "A provider refuses a step for good: why. Once that is mended, provision the domain again.",
		"throttled": waits[StagePlan] + waitsForProvider, "unreliable": waits[StagePlan],
	} {
		if got := sees(t, fresh(), name).Message; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := sees(t, fresh(), append(toRead[:2:2], "changes")...).Message; got != messageMoved {
		t.Errorf("moved: %q", got)
	}
	unconnected := Zone{Reliable: true, Conflict: true, Changes: true, Required: dns.ConnectionRequired, Message: "no connection"}
	j := sees(t, fresh(), toRead...)
	j, _ = Begin(j, start)
	if j, _ = Usual.Advance(j, Observation{Zone: unconnected}, at(start)); j.Message != advice[dns.ConflictToSettle] {
		t.Errorf("a conflict says %q", j.Message)
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want ending
		wait time.Duration
	}{
		{nil, answered, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.DKIMNotReady}, notYet, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.VerificationFailed, RetryAfter: time.Minute}, notYet, time.Minute},
		{fault.ExchangeNotReady.With("no"), notYet, 0},
		{ends(outcome.Throttled, 0), away, 0},
		{ends(outcome.Down, time.Second), away, time.Second},
		{fault.ProviderUnavailable.RetryIn(time.Minute, "no"), away, time.Minute},
		{fault.RateLimitExceeded.RetryIn(time.Minute, "no"), away, time.Minute},
		{fault.ProviderTimeout.With("no"), lost, 0},
		{fault.ProviderError.With("no"), lost, 0},
		{ends(outcome.Broken, time.Hour), lost, 0},
		{fault.InvalidRequest.With("no"), refused, 0},
		{fault.TenantNotFound.With("no"), gone, 0},
		{errOurs, ours, 0},
	} {
		if got, wait := judge(tt.err); got != tt.want || wait != tt.wait {
			t.Errorf("%v: %d after %s", tt.err, got, wait)
		}
	}
}

func TestAJobThatDoesNotRunStaysAsItIs(t *testing.T) {
	for _, s := range []Status{Queued, Waiting, ActionRequired, Completed, Failed} {
		j := fresh()
		j.Status = s
		got, step := Usual.Advance(j, named(t, "changes"), at(start))
		if want := map[bool]Step{true: Wait, false: None}[s == Queued || s == Waiting]; got != j || step != want {
			t.Errorf("%s: step %q, %+v", s, step, got)
		}
		begun, step := Begin(j, start.Add(time.Hour))
		if has := s == Queued || s == Waiting; (begun.Status == Running) != has || (step == Plan) != has || has == begun.StartedAt.IsZero() {
			t.Errorf("%s: begins with %q as %s", s, step, begun.Status)
		}
	}
}
