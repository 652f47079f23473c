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
	unavailable := func(hours int) Job {
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
	j := unavailable(40)
	for hours, want := range map[int]Status{87: Waiting, 88: ActionRequired} {
		answered, _ := Usual.Advance(j, named(t, "not shown"), at(j.Since.Add(40*time.Hour)))
		answered.Status = Running
		got, _ := Usual.Advance(answered, named(t, "not shown"), at(j.Since.Add(time.Duration(hours)*time.Hour)))
		if got.Status != want {
			t.Errorf("at %d h: %s", hours, got.Status)
		}
	}
	j = unavailable(95)
	got, _ := Usual.Advance(j, named(t, "down"), at(j.Since.Add(96*time.Hour)))
	if got.Required != PropagationTimeout || !strings.Contains(got.Message, suffixUnavailableAtEnd) {
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
	for name, z := range map[string]Zone{"another": otherwise, "settled": needsNothing, "blocked": blocked, "unclear": unclear, "nothing": {},
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

// A plan's message takes precedence over the general one.
func TestMessages(t *testing.T) {
	for name, want := range map[string]string{
		"no connection": "words of dns_connection_required", "conflict": blocked.Message,
		"access denied": advice[TenantAccessLost], "gone": messageGone,
		"refused":   "A provider refuses a step for good: why. Once that is mended, provision the domain again.",
		"throttled": waitMessages[StagePlan] + suffixUnavailable, "unreliable": waitMessages[StagePlan],
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
		want errorClass
		wait time.Duration
	}{
		{nil, answered, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.DKIMNotReady}, notYet, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.VerificationFailed, RetryAfter: time.Minute}, notYet, time.Minute},
		{fault.ExchangeNotReady.With("no"), notYet, 0},
		{ends(outcome.Throttled, 0), unavailable, 0},
		{ends(outcome.Down, time.Second), unavailable, time.Second},
		{fault.ProviderUnavailable.RetryIn(time.Minute, "no"), unavailable, time.Minute},
		{fault.RateLimitExceeded.RetryIn(time.Minute, "no"), unavailable, time.Minute},
		{fault.ProviderTimeout.With("no"), outcomeUnknown, 0},
		{fault.ProviderError.With("no"), outcomeUnknown, 0},
		{ends(outcome.Broken, time.Hour), outcomeUnknown, 0},
		{fault.InvalidRequest.With("no"), refused, 0},
		{fault.TenantNotFound.With("no"), domainGone, 0},
		{errOurs, internalFault, 0},
	} {
		if got, wait := classify(tt.err); got != tt.want || wait != tt.wait {
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
