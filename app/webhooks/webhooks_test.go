// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// verify reports whether one of the signatures of a message was made with the secret.
func verify(t *testing.T, m webhook.Message, w webhooks.WebhookWithSecret) bool {
	t.Helper()
	own, err := m.Sign(w.Secret)
	apptest.Must(t, err)
	return slices.Contains(strings.Fields(m.Signature), own.Signature)
}

func TestEventsAreDelivered(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	good, chosen := newRecorder(200), newRecorder(200)
	w, other := f.webhook(t, p, owner, good.handle), f.webhook(t, p, owner, chosen.handle)
	_, err := p.Update(t.Context(), owner, other.ID, webhooks.Change{Types: &[]event.Type{event.KeyCreated}})
	apptest.Must(t, err)
	f.emit(t, owner, 20)
	f.fanOut(t, p)
	messages := good.wait(t, 20)
	seen := map[string]bool{}
	for _, m := range messages {
		seen[m.ID] = true
		if !verify(t, m, w) || verify(t, m, other) || !bytes.Contains(m.Body, []byte(`"data":{"id":"`+m.ID+`"`)) {
			t.Errorf("the message is not signed by its secret: %+v", m)
		}
	}
	list := f.deliveries(t, p, w.Webhook)
	if len(seen) != 20 || len(list) != 20 || len(f.deliveries(t, p, other.Webhook)) != 0 {
		t.Fatalf("%d events, %d deliveries", len(seen), len(list))
	}
	for _, d := range list {
		if d.Status != webhook.Delivered || len(d.Attempts) != 1 || !seen[d.EventID] {
			t.Errorf("%+v", d)
		}
	}
}

// TestFailedDeliveriesAreRepeated checks the schedule by the service's clock, and that each attempt
// has the same id and body.
func TestFailedDeliveriesAreRepeated(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	down := newRecorder(500)
	w := f.webhook(t, p, owner, down.handle)
	f.emit(t, owner, 1)
	f.fanOut(t, p)
	first := down.wait(t, 1)[0]
	if d := f.deliveries(t, p, w.Webhook); d[0].Status != webhook.Pending || !d[0].NextAttemptAt.After(f.now()) {
		t.Fatalf("%+v", d)
	}
	if n := p.worker.Due(); n != 1 {
		t.Fatalf("%d webhooks have a next try", n)
	}
	for n := 2; n <= 4; n++ { // one attempt a day; the fifth day would disable the webhook
		f.advance(24 * time.Hour)
		apptest.Must(t, p.worker.Sweep(t.Context()))
		f.wakeDue(t, p)
		all := down.wait(t, 1)
		p.worker.WaitIdle()
		if last := all[len(all)-1]; len(all) != n || last.ID != first.ID || !bytes.Equal(last.Body, first.Body) || !verify(t, last, w) {
			t.Fatalf("try %d: %+v", n, last)
		}
	}
}

func TestAWebhookThatFailsForFiveDaysIsDisabled(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	down, console := newRecorder(500), newRecorder(200)
	w, watcher := f.webhook(t, p, owner, down.handle), f.webhook(t, p, owner, console.handle)
	f.emit(t, owner, 1)
	f.fanOut(t, p)
	down.wait(t, 1)
	console.wait(t, 1)
	p.worker.WaitIdle()
	f.advance(5*24*time.Hour + time.Minute)
	apptest.Must(t, p.worker.Sweep(t.Context()))
	f.wakeDue(t, p)
	down.wait(t, 1)
	p.worker.WaitIdle()
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("%+v, %v", got, err)
	}
	f.fanOut(t, p)
	told := console.wait(t, 1)
	if last := told[len(told)-1]; !bytes.Contains(last.Body, []byte(`"webhook_id":"`+w.ID+`","status":"disabled","reason":"failing"`)) {
		t.Errorf("the other webhook got %s", last.Body)
	}
	if got, err := p.Get(t.Context(), owner, watcher.ID); err != nil || got.Status != webhook.Enabled {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAGoneEndpointIsDisabled(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	gone := newRecorder(410)
	w := f.webhook(t, p, owner, gone.handle)
	f.emit(t, owner, 1)
	f.fanOut(t, p)
	gone.wait(t, 1)
	p.worker.WaitIdle()
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	good := newRecorder(200)
	before := f.webhook(t, p, owner, good.handle)
	after, err := p.RotateSecret(t.Context(), owner, before.ID, time.Hour, nil)
	apptest.Must(t, err)
	for _, c := range []struct {
		wait     time.Duration
		previous bool
	}{{0, true}, {time.Hour, false}} {
		f.advance(c.wait)
		_, err := p.Test(t.Context(), owner, before.ID)
		apptest.Must(t, err)
		messages := good.wait(t, 1)
		if m := messages[len(messages)-1]; !verify(t, m, after) || verify(t, m, before) != c.previous {
			t.Errorf("after %s: %q", c.wait, m.Signature)
		}
	}
}

func TestATestSendsOneMessageAndReportsTheAnswer(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	r := newRecorder(200)
	w := f.webhook(t, p, owner, r.handle)
	for _, c := range []struct {
		status int
		want   webhook.DeliveryStatus
	}{{200, webhook.Delivered}, {500, webhook.Failed}} {
		r.answer(c.status)
		tested, err := p.Test(t.Context(), owner, w.ID)
		if err != nil || tested.Status != c.want || tested.Attempt.StatusCode != c.status {
			t.Errorf("%+v, %v", tested, err)
		}
		all := r.wait(t, 1)
		list := f.deliveries(t, p, w.Webhook)
		if last := all[len(all)-1]; !bytes.Contains(last.Body, []byte(`{"type":"webhook.test",`)) || list[0].EventID != last.ID || list[0].Status != c.want {
			t.Errorf("%s, %+v", last.Body, list[0])
		}
	}
	_, err := p.Test(t.Context(), owner, f.newID())
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
}

func TestRedeliverAndReplay(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	r := newRecorder(200)
	w := f.webhook(t, p, owner, r.handle)
	f.emit(t, owner, 2)
	f.fanOut(t, p)
	r.wait(t, 2)
	list := f.deliveries(t, p, w.Webhook)
	d, err := p.Redeliver(t.Context(), owner, w.ID, list[0].ID)
	if err != nil || d.Status != webhook.Pending {
		t.Fatalf("%+v, %v", d, err)
	}
	f.wakeDue(t, p)
	all := r.wait(t, 1)
	if all[2].ID != list[0].EventID {
		t.Errorf("redelivered %s, want %s", all[2].ID, list[0].EventID)
	}
	if again := f.deliveries(t, p, w.Webhook); len(again) != 2 || again[0].Status != webhook.Delivered || len(again[0].Attempts) != 2 {
		t.Errorf("%+v", again)
	}
	apptest.Must(t, p.Replay(t.Context(), owner, w.ID, ports.ReplayFrom{At: f.now().Add(-time.Hour)}))
	f.fanOut(t, p)
	if all := r.wait(t, 2); len(all) != 5 {
		t.Errorf("%d messages", len(all))
	}
}

// TestStopInterruptsTries checks that an interrupted attempt does not count, and that the next
// process repeats it with the same id.
func TestStopInterruptsTries(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	began, first := make(chan webhook.Message, 1), true
	r := newRecorder(200)
	w := f.webhook(t, p, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if !first {
			return r.handle(ctx, m)
		}
		first = false
		began <- m
		<-ctx.Done()
		return webhook.Response{Error: "interrupted"}
	})
	f.emit(t, owner, 1)
	f.fanOut(t, p)
	interrupted := <-began
	apptest.Must(t, p.worker.Stop(t.Context()))
	if d := f.deliveries(t, p, w.Webhook); d[0].Status != webhook.Pending || len(d[0].Attempts) != 0 {
		t.Fatalf("%+v", d)
	}
	next := f.process(t, nil)
	apptest.Must(t, next.worker.Sweep(t.Context()))
	f.wakeDue(t, p) // p has stopped, so it does nothing
	apptest.Must(t, next.worker.Sweep(t.Context()))
	f.wakeDue(t, next)
	if repeated := r.wait(t, 1)[0]; repeated.ID != interrupted.ID {
		t.Errorf("repeated %s, want %s", repeated.ID, interrupted.ID)
	}
}

func TestURLsAreChecked(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	w := f.webhook(t, p, owner, newRecorder(200).handle)
	f.sender.refuse = fault.InvalidWebhookURL.With("no")
	_, err := p.Create(t.Context(), webhooks.NewWebhook{Account: owner, URL: "https://x.test/"}, nil)
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	url := "https://y.test/"
	_, err = p.Update(t.Context(), owner, w.ID, webhooks.Change{URL: &url})
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	_, err = p.Update(t.Context(), owner, f.newID(), webhooks.Change{URL: &url})
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
	_, err = p.Update(t.Context(), owner, w.ID, webhooks.Change{})
	apptest.RequireRefusal(t, err, fault.NoUpdates)
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.URL != w.URL {
		t.Errorf("%+v, %v", got, err)
	}
}

// errCrashed is the error of a process that has crashed.
var errCrashed = errors.New("the process is dead")

// crashingStore is a store whose process crashes after an attempt, before its result is stored.
type crashingStore struct{ ports.Deliveries }

func (crashingStore) SaveDeliveries(context.Context, []ports.TriedDelivery, time.Time) ([]ports.SavedDelivery, error) {
	return nil, errCrashed
}

// TestACrashAfterSendingRepeatsTheMessage checks that a message whose result was not stored is sent
// again with the same id, and that no other message is sent again.
func TestACrashAfterSendingRepeatsTheMessage(t *testing.T) {
	f := newFixture(t)
	crashing := f.process(t, func(o *webhooks.Options) { o.Deliveries = crashingStore{o.Deliveries} })
	owner := f.account(t, "a")
	r := newRecorder(200)
	w := f.webhook(t, crashing, owner, r.handle)
	f.emit(t, owner, 1)
	f.fanOut(t, crashing)
	sent := r.wait(t, 1)[0]
	crashing.worker.WaitIdle()

	next := f.process(t, nil)
	apptest.Must(t, next.worker.Sweep(t.Context()))
	f.wakeDue(t, next)
	next.worker.WaitIdle()
	if d := f.deliveries(t, next, w.Webhook); d[0].Status != webhook.Pending {
		t.Fatalf("sent again while the claim is valid: %+v", d)
	}
	apptest.Must(t, f.store.EndLeases(t.Context()))
	apptest.Must(t, next.worker.Sweep(t.Context()))
	f.wakeDue(t, next)
	if repeated := r.wait(t, 1)[1]; repeated.ID != sent.ID || !bytes.Equal(repeated.Body, sent.Body) {
		t.Errorf("repeated %+v, want %+v", repeated, sent)
	}
	if d := f.deliveries(t, next, w.Webhook); len(d) != 1 || d[0].Status != webhook.Delivered || len(d[0].Attempts) != 1 {
		t.Errorf("%+v", d)
	}
}

// TestATestWakesWhatWaitedForIt checks a failing endpoint, which gets one message at a time.
// Deliveries that waited for the end of a test message are sent right after it, without a sweep.
func TestATestWakesWhatWaitedForIt(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	down := newRecorder(500)
	var during func()
	w := f.webhook(t, p, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if during != nil {
			during()
		}
		return down.handle(ctx, m)
	})
	f.emit(t, owner, 1)
	f.fanOut(t, p)
	down.wait(t, 1)
	p.worker.WaitIdle()
	f.advance(time.Minute)
	during = func() {
		during = nil
		f.wakeDue(t, p) // the next try is due, but the endpoint is busy
	}
	_, err := p.Test(t.Context(), owner, w.ID)
	apptest.Must(t, err)
	if all := down.wait(t, 1); len(all) != 2 {
		t.Fatalf("%d messages", len(all))
	}
	f.wakeDue(t, p)
	down.wait(t, 1)
	if d := f.deliveries(t, p, w.Webhook); len(d) != 2 || len(d[1].Attempts) != 2 {
		t.Errorf("%+v", d)
	}
}

// resultStore are Deliveries that only store results. Each call waits until the test sends its
// error.
type resultStore struct {
	ports.Deliveries
	calls  chan int // how many results each call has
	answer chan error
}

func (s resultStore) SaveDeliveries(_ context.Context, tried []ports.TriedDelivery, _ time.Time) ([]ports.SavedDelivery, error) {
	s.calls <- len(tried)
	switch err := <-s.answer; {
	case errors.Is(err, errCrashed):
		panic(err) // must have the same effect on the attempts as an error
	case err != nil:
		return nil, err
	}
	saved := make([]ports.SavedDelivery, 0, len(tried))
	for _, d := range tried {
		saved = append(saved, ports.SavedDelivery{Saved: true, HasDue: d.ID == "due"})
	}
	return saved, nil
}

// TestResultsAreStoredInBatches checks that results that arrive during a call of the store share
// the next call, that each attempt gets its own answer, and that a failed call fails only its own
// attempts.
func TestResultsAreStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resultStore{calls: make(chan int, 10), answer: make(chan error)}
		tries := &webhooks.Tries{Deliveries: s, Now: time.Now, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)}
		type outcome struct {
			due bool
			err error
		}
		ended := make(chan outcome, 20)
		try := func(id string) {
			go func() {
				tried, err := tries.Try(t.Context(), ports.ClaimedDelivery{Delivery: webhook.Delivery{ID: id}}) // without an event nothing is sent
				ended <- outcome{tried.HasDue, err}
			}()
			synctest.Wait()
		}
		try("first")
		for range 8 {
			try("")
		}
		try("due")
		if n := <-s.calls; n != 1 || len(s.calls) != 0 {
			t.Fatalf("the first call has %d results, %d calls follow", n, len(s.calls))
		}
		s.answer <- errCrashed
		if n := <-s.calls; n != 9 {
			t.Errorf("the second call has %d results", n)
		}
		if o := <-ended; o.err == nil {
			t.Error("a result that is not stored causes no error")
		}
		s.answer <- fault.ServiceUnavailable.With("busy")
		if n := <-s.calls; n != 9 || len(ended) != 0 {
			t.Errorf("the call is repeated with %d results, %d tries have ended", n, len(ended))
		}
		s.answer <- nil
		due := 0
		for range 9 {
			o := <-ended
			if o.due {
				due++
			}
			if o.err != nil {
				t.Error(o.err)
			}
		}
		if due != 1 {
			t.Errorf("%d webhooks have more deliveries that are due", due)
		}
		time.Sleep(time.Minute) // in the bubble's fake time: the pause after the last batch ends
	})
}
