// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// signedWith reports whether one of the signatures of a message was made with the secret of the
// webhook.
func signedWith(t *testing.T, m webhook.Message, w webhooks.WebhookWithSecret) bool {
	t.Helper()
	signed, err := m.Sign(w.Secret)
	apptest.Must(t, err)
	return slices.Contains(strings.Fields(m.Signature), signed.Signature)
}

func TestEventsAreDelivered(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	accepting, keyEvents := newRecorder(200), newRecorder(200)
	w, other := fx.addWebhook(t, p, owner, accepting.handle), fx.addWebhook(t, p, owner, keyEvents.handle)
	_, err := p.Update(t.Context(), owner, other.ID, webhooks.Change{Types: &[]event.Type{event.KeyCreated}})
	apptest.Must(t, err)
	fx.emit(t, owner, 20)
	fx.fanOut(t, p)
	messages := accepting.wait(t, 20)
	receivedIDs := map[string]bool{}
	for _, m := range messages {
		receivedIDs[m.ID] = true
		if !signedWith(t, m, w) || signedWith(t, m, other) || !bytes.Contains(m.Body, []byte(`"data":{"id":"`+m.ID+`"`)) {
			t.Errorf("the message is not signed with the secret of its webhook: %+v", m)
		}
	}
	list := fx.deliveries(t, p, w.Webhook)
	if len(receivedIDs) != 20 || len(list) != 20 || len(fx.deliveries(t, p, other.Webhook)) != 0 {
		t.Fatalf("%d events, %d deliveries", len(receivedIDs), len(list))
	}
	for _, d := range list {
		if d.Status != webhook.Delivered || len(d.Attempts) != 1 || !receivedIDs[d.EventID] {
			t.Errorf("the delivery is %+v, want it delivered at the first try", d)
		}
	}
}

// TestFailedDeliveriesAreRepeated checks that a failed delivery is tried again when it is due by
// the clock of the service. Each try has the same id and body.
func TestFailedDeliveriesAreRepeated(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	down := newRecorder(500)
	w := fx.addWebhook(t, p, owner, down.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	first := down.wait(t, 1)[0]
	if d := fx.deliveries(t, p, w.Webhook); d[0].Status != webhook.Pending || !d[0].NextAttemptAt.After(fx.now()) {
		t.Fatalf("after a failed try the deliveries are %+v, want one pending", d)
	}
	if n := p.worker.Due(); n != 1 {
		t.Fatalf("%d webhooks have a next try", n)
	}
	for n := 2; n <= 4; n++ { // one try a day; the fifth day would disable the webhook
		fx.advance(24 * time.Hour)
		apptest.Must(t, p.worker.Sweep(t.Context()))
		fx.wakeDue(t, p)
		messages := down.wait(t, 1)
		p.worker.WaitIdle()
		if last := messages[len(messages)-1]; len(messages) != n || last.ID != first.ID || !bytes.Equal(last.Body, first.Body) || !signedWith(t, last, w) {
			t.Fatalf("try %d: %+v", n, last)
		}
	}
}

func TestAWebhookThatFailsForFiveDaysIsDisabled(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	down, other := newRecorder(500), newRecorder(200)
	w, otherWebhook := fx.addWebhook(t, p, owner, down.handle), fx.addWebhook(t, p, owner, other.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	down.wait(t, 1)
	other.wait(t, 1)
	p.worker.WaitIdle()
	fx.advance(5*24*time.Hour + time.Minute)
	apptest.Must(t, p.worker.Sweep(t.Context()))
	fx.wakeDue(t, p)
	down.wait(t, 1)
	p.worker.WaitIdle()
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("the failing webhook is %+v, %v, want it disabled", got, err)
	}
	fx.fanOut(t, p)
	messages := other.wait(t, 1)
	if last := messages[len(messages)-1]; !bytes.Contains(last.Body, []byte(`"webhook_id":"`+w.ID+`","status":"disabled","reason":"failing"`)) {
		t.Errorf("the other webhook got %s", last.Body)
	}
	if got, err := p.Get(t.Context(), owner, otherWebhook.ID); err != nil || got.Status != webhook.Enabled {
		t.Errorf("the other webhook is %+v, %v, want it enabled", got, err)
	}
}

func TestAGoneEndpointIsDisabled(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	gone := newRecorder(410)
	w := fx.addWebhook(t, p, owner, gone.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	gone.wait(t, 1)
	p.worker.WaitIdle()
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("the webhook is %+v, %v, want it disabled", got, err)
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	accepting := newRecorder(200)
	oldWebhook := fx.addWebhook(t, p, owner, accepting.handle)
	rotatedWebhook, err := p.RotateSecret(t.Context(), owner, oldWebhook.ID, time.Hour, nil)
	apptest.Must(t, err)
	for _, c := range []struct {
		wait          time.Duration
		previousSigns bool
	}{{0, true}, {time.Hour, false}} {
		fx.advance(c.wait)
		_, err := p.Test(t.Context(), owner, oldWebhook.ID)
		apptest.Must(t, err)
		messages := accepting.wait(t, 1)
		if m := messages[len(messages)-1]; !signedWith(t, m, rotatedWebhook) || signedWith(t, m, oldWebhook) != c.previousSigns {
			t.Errorf("after %s: %q", c.wait, m.Signature)
		}
	}
}

// concurrentlyChangedWebhooks is a store that changes the description of a webhook before each
// other change, like a concurrent request.
type concurrentlyChangedWebhooks struct{ *bunstore.Store }

func (s concurrentlyChangedWebhooks) ChangeWebhook(ctx context.Context, owner access.AccountID, id string, reason webhook.Reason, storedAnswer *ports.StoredAnswer, change func(*webhook.Webhook)) (webhook.Webhook, error) {
	_, err := s.Store.ChangeWebhook(ctx, owner, id, reason, nil, func(w *webhook.Webhook) { w.Description = "changed" })
	if err != nil {
		return webhook.Webhook{}, err
	}
	return s.Store.ChangeWebhook(ctx, owner, id, reason, storedAnswer, change)
}

// TestRotationReturnsItsStoredAnswer rotates a secret while a different request changes the
// webhook. The first answer must be equal to the stored answer, which a repetition gets.
func TestRotationReturnsItsStoredAnswer(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	w := fx.addWebhook(t, p, owner, newRecorder(200).handle)
	p.Webhooks = concurrentlyChangedWebhooks{fx.store}
	var stored webhooks.WebhookWithSecret
	returned, err := p.RotateSecret(t.Context(), owner, w.ID, time.Hour, func(answer webhooks.WebhookWithSecret) (*ports.StoredAnswer, error) {
		stored = answer
		return nil, nil
	})
	apptest.Must(t, err)
	if !reflect.DeepEqual(returned, stored) {
		t.Errorf("the answer is %+v, want the stored answer %+v", returned, stored)
	}
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.Description != "changed" || !reflect.DeepEqual(got.Secrets, returned.Secrets) {
		t.Errorf("the webhook is %+v, %v, want both changes", got, err)
	}
}

func TestATestSendsOneMessageAndReportsTheAnswer(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	r := newRecorder(200)
	w := fx.addWebhook(t, p, owner, r.handle)
	for _, c := range []struct {
		status int
		want   webhook.DeliveryStatus
	}{{200, webhook.Delivered}, {500, webhook.Failed}} {
		r.answer(c.status)
		tested, err := p.Test(t.Context(), owner, w.ID)
		if err != nil || tested.Status != c.want || tested.Attempt.StatusCode != c.status {
			t.Errorf("the test returned %+v, %v, want %v with the status code %d", tested, err, c.want, c.status)
		}
		messages := r.wait(t, 1)
		list := fx.deliveries(t, p, w.Webhook)
		if last := messages[len(messages)-1]; !bytes.Contains(last.Body, []byte(`{"type":"webhook.test",`)) || list[0].EventID != last.ID || list[0].Status != c.want {
			t.Errorf("the test sent %s, its delivery is %+v", last.Body, list[0])
		}
	}
	_, err := p.Test(t.Context(), owner, fx.newID())
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
}

func TestRedeliverAndReplaySendEventsAgain(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	r := newRecorder(200)
	w := fx.addWebhook(t, p, owner, r.handle)
	fx.emit(t, owner, 2)
	fx.fanOut(t, p)
	r.wait(t, 2)
	list := fx.deliveries(t, p, w.Webhook)
	d, err := p.Redeliver(t.Context(), owner, w.ID, list[0].ID)
	if err != nil || d.Status != webhook.Pending {
		t.Fatalf("Redeliver returned %+v, %v, want a pending delivery", d, err)
	}
	fx.wakeDue(t, p)
	messages := r.wait(t, 1)
	if messages[2].ID != list[0].EventID {
		t.Errorf("redelivered %s, want %s", messages[2].ID, list[0].EventID)
	}
	if again := fx.deliveries(t, p, w.Webhook); len(again) != 2 || again[0].Status != webhook.Delivered || len(again[0].Attempts) != 2 {
		t.Errorf("after Redeliver the deliveries are %+v, want 2 attempts of the first", again)
	}
	apptest.Must(t, p.Replay(t.Context(), owner, w.ID, ports.ReplayFrom{At: fx.now().Add(-time.Hour)}))
	fx.fanOut(t, p)
	if messages := r.wait(t, 2); len(messages) != 5 {
		t.Errorf("%d messages, want 5", len(messages))
	}
}

// TestStopInterruptsTries checks that an interrupted try does not count, and that the next process
// repeats it with the same id.
func TestStopInterruptsTries(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	interruptedMessages, first := make(chan webhook.Message, 1), true
	r := newRecorder(200)
	w := fx.addWebhook(t, p, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if !first {
			return r.handle(ctx, m)
		}
		first = false
		interruptedMessages <- m
		<-ctx.Done()
		return webhook.Response{Error: "interrupted"}
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	interrupted := <-interruptedMessages
	apptest.Must(t, p.worker.Stop(t.Context()))
	if d := fx.deliveries(t, p, w.Webhook); d[0].Status != webhook.Pending || len(d[0].Attempts) != 0 {
		t.Fatalf("an interrupted try counts: %+v", d)
	}
	next := fx.startProcess(t, nil)
	apptest.Must(t, next.worker.Sweep(t.Context()))
	fx.wakeDue(t, p) // p has stopped, so it does nothing
	apptest.Must(t, next.worker.Sweep(t.Context()))
	fx.wakeDue(t, next)
	if repeated := r.wait(t, 1)[0]; repeated.ID != interrupted.ID {
		t.Errorf("repeated %s, want %s", repeated.ID, interrupted.ID)
	}
}

// hangingStore is a store whose FanOut ends only when its context ends.
type hangingStore struct {
	ports.Deliveries

	begun chan struct{}
	ended chan error // receives the reason why the context ended
}

func (s *hangingStore) FanOut(ctx context.Context, _ []access.AccountID, _ int, _ ports.Slots, _ time.Duration, _ time.Time) (ports.FanOutResult, error) {
	close(s.begun)
	<-ctx.Done()
	s.ended <- ctx.Err()
	return ports.FanOutResult{}, ctx.Err()
}

// TestStopInterruptsABatch checks that a batch that hangs in the database is interrupted when the
// time of Stop ends. The fan-out itself would give the batch more time.
func TestStopInterruptsABatch(t *testing.T) {
	fx := newFixture(t)
	store := &hangingStore{fx.store, make(chan struct{}), make(chan error, 1)}
	p := fx.startProcess(t, func(o *webhooks.Options) { o.Deliveries = store })
	owner := fx.createAccount(t, "a")
	fx.addWebhook(t, p, owner, newRecorder(200).handle)
	fx.emit(t, owner, 1)
	p.worker.Start()
	<-store.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.worker.Stop(ctx); err == nil {
		t.Error("Stop returned no error, though a batch did not end in time")
	}
	if err := <-store.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the batch ended with %v, want %v", err, context.Canceled)
	}
}

func TestURLsAreChecked(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	w := fx.addWebhook(t, p, owner, newRecorder(200).handle)
	fx.sender.urlErr = fault.InvalidWebhookURL.With("no")
	_, err := p.Create(t.Context(), webhooks.NewWebhook{Account: owner, URL: "https://x.test/"}, nil)
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	url := "https://y.test/"
	_, err = p.Update(t.Context(), owner, w.ID, webhooks.Change{URL: &url})
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	_, err = p.Update(t.Context(), owner, fx.newID(), webhooks.Change{URL: &url})
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
	_, err = p.Update(t.Context(), owner, w.ID, webhooks.Change{})
	apptest.RequireRefusal(t, err, fault.NoUpdates)
	if got, err := p.Get(t.Context(), owner, w.ID); err != nil || got.URL != w.URL {
		t.Errorf("a refused change changed the webhook: %+v, %v", got, err)
	}
}

// errCrashed is the error of a process that has crashed.
var errCrashed = errors.New("the process is dead")

// crashingStore is a store whose process crashes after a try, before the result of the try is
// stored.
type crashingStore struct{ ports.Deliveries }

func (crashingStore) SaveDeliveries(context.Context, []ports.TriedDelivery, time.Time) ([]ports.SavedDelivery, error) {
	return nil, errCrashed
}

// TestACrashAfterSendingRepeatsTheMessage checks a message whose result was not stored. The message
// is sent again with the same id, but only after the claim of its delivery has expired.
func TestACrashAfterSendingRepeatsTheMessage(t *testing.T) {
	fx := newFixture(t)
	crashing := fx.startProcess(t, func(o *webhooks.Options) { o.Deliveries = crashingStore{o.Deliveries} })
	owner := fx.createAccount(t, "a")
	r := newRecorder(200)
	w := fx.addWebhook(t, crashing, owner, r.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, crashing)
	sent := r.wait(t, 1)[0]
	crashing.worker.WaitIdle()

	next := fx.startProcess(t, nil)
	apptest.Must(t, next.worker.Sweep(t.Context()))
	fx.wakeDue(t, next)
	next.worker.WaitIdle()
	if d := fx.deliveries(t, next, w.Webhook); d[0].Status != webhook.Pending {
		t.Fatalf("sent again while the claim is valid: %+v", d)
	}
	apptest.Must(t, fx.store.EndLeases(t.Context()))
	apptest.Must(t, next.worker.Sweep(t.Context()))
	fx.wakeDue(t, next)
	if repeated := r.wait(t, 1)[1]; repeated.ID != sent.ID || !bytes.Equal(repeated.Body, sent.Body) {
		t.Errorf("repeated %+v, want %+v", repeated, sent)
	}
	if d := fx.deliveries(t, next, w.Webhook); len(d) != 1 || d[0].Status != webhook.Delivered || len(d[0].Attempts) != 1 {
		t.Errorf("the deliveries are %+v, want one that is delivered with one attempt", d)
	}
}

// TestAMessageThatCannotBeSignedDoesNotCountForTheEndpoint delivers an event to a webhook whose
// secret cannot be decrypted.
func TestAMessageThatCannotBeSignedDoesNotCountForTheEndpoint(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	w := webhook.Webhook{ID: fx.newID(), Account: fx.createAccount(t, "a"), URL: "https://0.test/", Status: webhook.Enabled,
		Secrets: webhook.Secrets{Current: []byte("none")}, CreatedAt: fx.now()}
	apptest.Must(t, fx.store.AddWebhook(t.Context(), w, nil))
	fx.emit(t, w.Account, 1)
	fx.fanOut(t, p)
	list := fx.deliveries(t, p, w)
	read, err := fx.store.Webhook(t.Context(), w.Account, w.ID)
	apptest.Must(t, err)
	if len(list) != 1 || len(list[0].Attempts) != 1 || read.IsFailing() {
		t.Errorf("the deliveries are %+v, want one with an attempt; failing is %v, want false", list, read.IsFailing())
	}
}

// TestAPanicOfTheSenderEndsTheTry checks that a try whose sender panics neither keeps its slot nor
// counts as a try that waits for the endpoint's answer.
func TestAPanicOfTheSenderEndsTheTry(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	arrived := make(chan struct{}, 10)
	fx.addWebhook(t, p, owner, func(context.Context, webhook.Message) webhook.Response {
		arrived <- struct{}{}
		panic("broken sender")
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	<-arrived
	p.worker.WaitIdle()
	if n := p.worker.WaitingTries(); n != 0 {
		t.Errorf("%d tries wait for an answer after the panic, want 0", n)
	}
}

// TestATestWakesTheDeliveryThatWaitedForIt sends a test message to a failing endpoint, which gets
// one message at a time. A delivery that becomes due meanwhile is sent right after the test
// message, without a sweep.
func TestATestWakesTheDeliveryThatWaitedForIt(t *testing.T) {
	fx := newFixture(t)
	p := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	down := newRecorder(500)
	var during func()
	w := fx.addWebhook(t, p, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if during != nil {
			during()
		}
		return down.handle(ctx, m)
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, p)
	down.wait(t, 1)
	p.worker.WaitIdle()
	fx.advance(time.Minute)
	during = func() {
		during = nil
		fx.wakeDue(t, p) // the next try is due, but the endpoint is busy
	}
	_, err := p.Test(t.Context(), owner, w.ID)
	apptest.Must(t, err)
	if messages := down.wait(t, 1); len(messages) != 2 {
		t.Fatalf("%d messages, want 2", len(messages))
	}
	fx.wakeDue(t, p)
	down.wait(t, 1)
	if d := fx.deliveries(t, p, w.Webhook); len(d) != 2 || len(d[1].Attempts) != 2 {
		t.Errorf("the deliveries are %+v, want 2 attempts of the older one", d)
	}
}

// resultStore is a store of deliveries that only stores results. Each call waits until the test
// sends the error that the call is to return.
type resultStore struct {
	ports.Deliveries
	calls  chan int // how many results each call has
	answer chan error
}

func (s resultStore) SaveDeliveries(_ context.Context, tried []ports.TriedDelivery, _ time.Time) ([]ports.SavedDelivery, error) {
	s.calls <- len(tried)
	switch err := <-s.answer; {
	case errors.Is(err, errCrashed):
		panic(err) // a panic must have the same effect as an error
	case err != nil:
		return nil, err
	}
	saved := make([]ports.SavedDelivery, 0, len(tried))
	for _, d := range tried {
		saved = append(saved, ports.SavedDelivery{Saved: true, HasDue: d.ID == "due"})
	}
	return saved, nil
}

// TestResultsAreStoredInBatches checks that results which arrive during a call of the store share
// the next call. Each try gets its own result. If a call fails, only the tries of that call fail.
func TestResultsAreStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resultStore{calls: make(chan int, 10), answer: make(chan error)}
		tries := &webhooks.Tries{Deliveries: s, Now: time.Now, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)}
		type result struct {
			due bool
			err error
		}
		ended := make(chan result, 20)
		try := func(id string) {
			go func() {
				tried, err := tries.Try(t.Context(), ports.ClaimedDelivery{Delivery: webhook.Delivery{ID: id}}) // without an event nothing is sent
				ended <- result{tried.HasDue, err}
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
		time.Sleep(time.Minute) // in fake time, until the pause after the last batch has ended
	})
}
