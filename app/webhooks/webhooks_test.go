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

// TestEventsAreDelivered checks that a webhook gets all events, signed with its secret, and that a
// webhook with a type of events gets no other events.
func TestEventsAreDelivered(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	accepting := newRecorder(200)
	allEventsWebhook, keyEventsWebhook := fx.addWebhook(t, process, owner, accepting.handle), fx.addWebhook(t, process, owner, newRecorder(200).handle)
	_, err := process.Update(t.Context(), owner, keyEventsWebhook.ID, webhooks.Change{Types: &[]event.Type{event.KeyCreated}})
	apptest.Must(t, err)
	fx.emit(t, owner, 20)
	fx.fanOut(t, process)
	messages := accepting.awaitMessages(t, 20)
	receivedIDs := map[string]bool{}
	for _, m := range messages {
		receivedIDs[m.ID] = true
		if !signedWith(t, m, allEventsWebhook) || signedWith(t, m, keyEventsWebhook) || !bytes.Contains(m.Body, []byte(`"data":{"id":"`+m.ID+`"`)) {
			t.Errorf("got the message %+v, want the id of its event in the body, and a signature with the secret of its webhook only", m)
		}
	}
	list := fx.deliveries(t, process, allEventsWebhook.Webhook)
	if len(receivedIDs) != 20 || len(list) != 20 || len(fx.deliveries(t, process, keyEventsWebhook.Webhook)) != 0 {
		t.Fatalf("%d events and %d deliveries, want 20, and no delivery to the webhook for key events", len(receivedIDs), len(list))
	}
	for _, d := range list {
		if d.Status != webhook.Delivered || len(d.Attempts) != 1 || !receivedIDs[d.EventID] {
			t.Errorf("the delivery is %+v, want it delivered at the first try", d)
		}
	}
}

// TestFailedDeliveriesAreRepeated checks that a failed delivery is tried again when it is due by
// the clock of the service. Each try sends the same id and body.
func TestFailedDeliveriesAreRepeated(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	failing := newRecorder(500)
	failingWebhook := fx.addWebhook(t, process, owner, failing.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, process)
	firstMessage := failing.awaitMessages(t, 1)[0]
	if deliveries := fx.deliveries(t, process, failingWebhook.Webhook); deliveries[0].Status != webhook.Pending || !deliveries[0].NextAttemptAt.After(fx.now()) {
		t.Fatalf("after a failed try the deliveries are %+v, want one pending", deliveries)
	}
	if due := process.worker.Due(); due != 1 {
		t.Fatalf("%d webhooks have a scheduled claim, want 1", due)
	}
	for try := 2; try <= 4; try++ { // one try a day; the fifth day would disable the webhook
		fx.advance(24 * time.Hour)
		apptest.Must(t, process.worker.Sweep(t.Context()))
		fx.wakeDue(t, process)
		messages := failing.awaitMessages(t, 1)
		process.worker.WaitIdle()
		if last := messages[len(messages)-1]; len(messages) != try || last.ID != firstMessage.ID || !bytes.Equal(last.Body, firstMessage.Body) || !signedWith(t, last, failingWebhook) {
			t.Fatalf("after try %d there are %d messages, and the last is %+v, want the id and body of %+v", try, len(messages), last, firstMessage)
		}
	}
}

func TestAWebhookThatFailsForFiveDaysIsDisabled(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	failing, working := newRecorder(500), newRecorder(200)
	failingWebhook, workingWebhook := fx.addWebhook(t, process, owner, failing.handle), fx.addWebhook(t, process, owner, working.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, process)
	failing.awaitMessages(t, 1)
	working.awaitMessages(t, 1)
	process.worker.WaitIdle()
	fx.advance(5*24*time.Hour + time.Minute)
	apptest.Must(t, process.worker.Sweep(t.Context()))
	fx.wakeDue(t, process)
	failing.awaitMessages(t, 1)
	process.worker.WaitIdle()
	if got, err := process.Get(t.Context(), owner, failingWebhook.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("the failing webhook is %+v, %v, want it disabled", got, err)
	}
	fx.fanOut(t, process)
	messages := working.awaitMessages(t, 1)
	if last := messages[len(messages)-1]; !bytes.Contains(last.Body, []byte(`"webhook_id":"`+failingWebhook.ID+`","status":"disabled","reason":"failing"`)) {
		t.Errorf("the working webhook got %s, want the event that the failing webhook was disabled", last.Body)
	}
	if got, err := process.Get(t.Context(), owner, workingWebhook.ID); err != nil || got.Status != webhook.Enabled {
		t.Errorf("the working webhook is %+v, %v, want it enabled", got, err)
	}
}

func TestAWebhookWithAGoneEndpointIsDisabled(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	gone := newRecorder(410)
	goneWebhook := fx.addWebhook(t, process, owner, gone.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, process)
	gone.awaitMessages(t, 1)
	process.worker.WaitIdle()
	if got, err := process.Get(t.Context(), owner, goneWebhook.ID); err != nil || got.Status != webhook.Disabled {
		t.Fatalf("the webhook is %+v, %v, want it disabled", got, err)
	}
}

func TestTheOldSecretAlsoSignsUntilTheRotationEnds(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	accepting := newRecorder(200)
	oldWebhook := fx.addWebhook(t, process, owner, accepting.handle)
	rotatedWebhook, err := process.RotateSecret(t.Context(), owner, oldWebhook.ID, time.Hour, nil)
	apptest.Must(t, err)
	for _, tc := range []struct {
		wait           time.Duration
		oldSecretSigns bool
	}{{0, true}, {time.Hour, false}} {
		fx.advance(tc.wait)
		_, err := process.Test(t.Context(), owner, oldWebhook.ID)
		apptest.Must(t, err)
		messages := accepting.awaitMessages(t, 1)
		if m := messages[len(messages)-1]; !signedWith(t, m, rotatedWebhook) || signedWith(t, m, oldWebhook) != tc.oldSecretSigns {
			t.Errorf("after %s the signature is %q, want it made with the new secret, and with the old secret: %v", tc.wait, m.Signature, tc.oldSecretSigns)
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
// webhook. The returned answer must be equal to the stored answer, which a repeated request gets.
func TestRotationReturnsItsStoredAnswer(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	rotatedWebhook := fx.addWebhook(t, process, owner, newRecorder(200).handle)
	process.Webhooks = concurrentlyChangedWebhooks{fx.store}
	var stored webhooks.WebhookWithSecret
	returned, err := process.RotateSecret(t.Context(), owner, rotatedWebhook.ID, time.Hour, func(answer webhooks.WebhookWithSecret) (*ports.StoredAnswer, error) {
		stored = answer
		return nil, nil
	})
	apptest.Must(t, err)
	if !reflect.DeepEqual(returned, stored) {
		t.Errorf("the answer is %+v, want the stored answer %+v", returned, stored)
	}
	if got, err := process.Get(t.Context(), owner, rotatedWebhook.ID); err != nil || got.Description != "changed" || !reflect.DeepEqual(got.Secrets, returned.Secrets) {
		t.Errorf("the webhook is %+v, %v, want both changes", got, err)
	}
}

func TestATestSendsOneMessageAndReportsTheAnswer(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	endpoint := newRecorder(200)
	testedWebhook := fx.addWebhook(t, process, owner, endpoint.handle)
	for _, tc := range []struct {
		status int
		want   webhook.DeliveryStatus
	}{{200, webhook.Delivered}, {500, webhook.Failed}} {
		endpoint.setStatus(tc.status)
		tested, err := process.Test(t.Context(), owner, testedWebhook.ID)
		if err != nil || tested.Status != tc.want || tested.Attempt.StatusCode != tc.status {
			t.Errorf("the test returned %+v, %v, want %v with the status code %d", tested, err, tc.want, tc.status)
		}
		messages := endpoint.awaitMessages(t, 1)
		list := fx.deliveries(t, process, testedWebhook.Webhook)
		if last := messages[len(messages)-1]; !bytes.Contains(last.Body, []byte(`{"type":"webhook.test",`)) || list[0].EventID != last.ID || list[0].Status != tc.want {
			t.Errorf("the test sent %s and its delivery is %+v, want a webhook.test event with the status %v", last.Body, list[0], tc.want)
		}
	}
	_, err := process.Test(t.Context(), owner, fx.newID())
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
}

func TestRedeliverAndReplaySendEventsAgain(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	accepting := newRecorder(200)
	receivingWebhook := fx.addWebhook(t, process, owner, accepting.handle)
	fx.emit(t, owner, 2)
	fx.fanOut(t, process)
	accepting.awaitMessages(t, 2)
	listBefore := fx.deliveries(t, process, receivingWebhook.Webhook)
	redelivered, err := process.Redeliver(t.Context(), owner, receivingWebhook.ID, listBefore[0].ID)
	if err != nil || redelivered.Status != webhook.Pending {
		t.Fatalf("Redeliver returned %+v, %v, want a pending delivery", redelivered, err)
	}
	fx.wakeDue(t, process)
	messages := accepting.awaitMessages(t, 1)
	if messages[2].ID != listBefore[0].EventID {
		t.Errorf("redelivered %s, want %s", messages[2].ID, listBefore[0].EventID)
	}
	if listAfter := fx.deliveries(t, process, receivingWebhook.Webhook); len(listAfter) != 2 || listAfter[0].Status != webhook.Delivered || len(listAfter[0].Attempts) != 2 {
		t.Errorf("after Redeliver the deliveries are %+v, want 2, the first of them delivered with 2 attempts", listAfter)
	}
	apptest.Must(t, process.Replay(t.Context(), owner, receivingWebhook.ID, ports.ReplayFrom{At: fx.now().Add(-time.Hour)}))
	fx.fanOut(t, process)
	if messages := accepting.awaitMessages(t, 2); len(messages) != 5 {
		t.Errorf("%d messages, want 5: 2 events, 1 redelivery and 2 replayed events", len(messages))
	}
}

// TestStopInterruptsTries checks that a try that Stop interrupts does not count, and that the next
// process sends the message again with the same id.
func TestStopInterruptsTries(t *testing.T) {
	fx := newFixture(t)
	stoppedProcess := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	interruptedMessages, isFirstTry := make(chan webhook.Message, 1), true
	accepting := newRecorder(200)
	interruptedWebhook := fx.addWebhook(t, stoppedProcess, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if !isFirstTry {
			return accepting.handle(ctx, m)
		}
		isFirstTry = false
		interruptedMessages <- m
		<-ctx.Done()
		return webhook.Response{Error: "interrupted"}
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, stoppedProcess)
	interrupted := <-interruptedMessages
	apptest.Must(t, stoppedProcess.worker.Stop(t.Context()))
	if deliveries := fx.deliveries(t, stoppedProcess, interruptedWebhook.Webhook); deliveries[0].Status != webhook.Pending || len(deliveries[0].Attempts) != 0 {
		t.Fatalf("the deliveries are %+v, want one pending without attempts", deliveries)
	}
	nextProcess := fx.startProcess(t, nil)
	apptest.Must(t, nextProcess.worker.Sweep(t.Context()))
	fx.wakeDue(t, stoppedProcess) // the stopped process claims nothing
	apptest.Must(t, nextProcess.worker.Sweep(t.Context()))
	fx.wakeDue(t, nextProcess)
	if repeated := accepting.awaitMessages(t, 1)[0]; repeated.ID != interrupted.ID {
		t.Errorf("repeated %s, want %s", repeated.ID, interrupted.ID)
	}
}

// hangingStore is a store whose FanOut returns only when the context ends.
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

// TestStopInterruptsABatch checks that Stop interrupts a batch that hangs in the database when the
// context of Stop ends. Without Stop, the batch would end only after its own timeout.
func TestStopInterruptsABatch(t *testing.T) {
	fx := newFixture(t)
	store := &hangingStore{fx.store, make(chan struct{}), make(chan error, 1)}
	process := fx.startProcess(t, func(o *webhooks.Options) { o.Deliveries = store })
	owner := fx.createAccount(t, "a")
	fx.addWebhook(t, process, owner, newRecorder(200).handle)
	fx.emit(t, owner, 1)
	process.worker.Start()
	<-store.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := process.worker.Stop(ctx); err == nil {
		t.Error("Stop returned no error, although a batch did not end in time")
	}
	if err := <-store.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the batch ended with %v, want %v", err, context.Canceled)
	}
}

func TestRefusedURLsChangeNoWebhook(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	existing := fx.addWebhook(t, process, owner, newRecorder(200).handle)
	fx.sender.urlErr = fault.InvalidWebhookURL.With("no")
	_, err := process.Create(t.Context(), webhooks.NewWebhook{Account: owner, URL: "https://x.test/"}, nil)
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	newURL := "https://y.test/"
	_, err = process.Update(t.Context(), owner, existing.ID, webhooks.Change{URL: &newURL})
	apptest.RequireRefusal(t, err, fault.InvalidWebhookURL)
	_, err = process.Update(t.Context(), owner, fx.newID(), webhooks.Change{URL: &newURL})
	apptest.RequireRefusal(t, err, fault.WebhookNotFound)
	_, err = process.Update(t.Context(), owner, existing.ID, webhooks.Change{})
	apptest.RequireRefusal(t, err, fault.NoUpdates)
	if got, err := process.Get(t.Context(), owner, existing.ID); err != nil || got.URL != existing.URL {
		t.Errorf("after refused changes the webhook is %+v, %v, want the URL %s", got, err, existing.URL)
	}
}

// errCrashed is the error of a store whose process has crashed.
var errCrashed = errors.New("the process has crashed")

// crashingStore is a store whose process crashes after a try, before the result of the try is
// stored.
type crashingStore struct{ ports.Deliveries }

func (crashingStore) SaveDeliveries(context.Context, []ports.TriedDelivery, time.Time) ([]ports.SavedDelivery, error) {
	return nil, errCrashed
}

// TestAMessageIsSentAgainAfterACrash checks a message whose result was not stored. The message is
// sent again with the same id, but only after the claim of its delivery has expired.
func TestAMessageIsSentAgainAfterACrash(t *testing.T) {
	fx := newFixture(t)
	crashedProcess := fx.startProcess(t, func(o *webhooks.Options) { o.Deliveries = crashingStore{o.Deliveries} })
	owner := fx.createAccount(t, "a")
	accepting := newRecorder(200)
	receivingWebhook := fx.addWebhook(t, crashedProcess, owner, accepting.handle)
	fx.emit(t, owner, 1)
	fx.fanOut(t, crashedProcess)
	firstMessage := accepting.awaitMessages(t, 1)[0]
	crashedProcess.worker.WaitIdle()

	nextProcess := fx.startProcess(t, nil)
	apptest.Must(t, nextProcess.worker.Sweep(t.Context()))
	fx.wakeDue(t, nextProcess)
	nextProcess.worker.WaitIdle()
	if deliveries := fx.deliveries(t, nextProcess, receivingWebhook.Webhook); deliveries[0].Status != webhook.Pending {
		t.Fatalf("the deliveries are %+v, want one pending while its claim is valid", deliveries)
	}
	apptest.Must(t, fx.store.EndLeases(t.Context()))
	apptest.Must(t, nextProcess.worker.Sweep(t.Context()))
	fx.wakeDue(t, nextProcess)
	if repeated := accepting.awaitMessages(t, 1)[1]; repeated.ID != firstMessage.ID || !bytes.Equal(repeated.Body, firstMessage.Body) {
		t.Errorf("the repeated message is %+v, want the id and body of %+v", repeated, firstMessage)
	}
	if deliveries := fx.deliveries(t, nextProcess, receivingWebhook.Webhook); len(deliveries) != 1 || deliveries[0].Status != webhook.Delivered || len(deliveries[0].Attempts) != 1 {
		t.Errorf("the deliveries are %+v, want one that is delivered with one attempt", deliveries)
	}
}

// TestAMessageThatCannotBeSignedDoesNotCountForTheEndpoint delivers an event to a webhook whose
// secret cannot be decrypted. The try must not mark the webhook as failing.
func TestAMessageThatCannotBeSignedDoesNotCountForTheEndpoint(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	unsignable := webhook.Webhook{ID: fx.newID(), Account: fx.createAccount(t, "a"), URL: "https://0.test/", Status: webhook.Enabled,
		Secrets: webhook.Secrets{Current: []byte("none")}, CreatedAt: fx.now()}
	apptest.Must(t, fx.store.AddWebhook(t.Context(), unsignable, nil))
	fx.emit(t, unsignable.Account, 1)
	fx.fanOut(t, process)
	list := fx.deliveries(t, process, unsignable)
	stored, err := fx.store.Webhook(t.Context(), unsignable.Account, unsignable.ID)
	apptest.Must(t, err)
	if len(list) != 1 || len(list[0].Attempts) != 1 || stored.IsFailing() {
		t.Errorf("the deliveries are %+v, want one with an attempt; failing is %v, want false", list, stored.IsFailing())
	}
}

// TestAPanicOfTheSenderEndsTheTry checks that a try whose sender panics neither keeps its slot nor
// counts as a try that waits for the answer of the endpoint.
func TestAPanicOfTheSenderEndsTheTry(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	arrived := make(chan struct{}, 10)
	fx.addWebhook(t, process, owner, func(context.Context, webhook.Message) webhook.Response {
		arrived <- struct{}{}
		panic("broken sender")
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, process)
	<-arrived
	process.worker.WaitIdle()
	if n := process.worker.WaitingTries(); n != 0 {
		t.Errorf("%d tries wait for an answer after the panic, want 0", n)
	}
}

// TestADeliveryThatIsDueDuringATestIsSentAfterTheTest sends a test message to a failing endpoint,
// which gets one message at a time. A delivery that becomes due meanwhile is sent right after the
// test message, without a sweep.
func TestADeliveryThatIsDueDuringATestIsSentAfterTheTest(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	failing := newRecorder(500)
	var duringTest func()
	failingWebhook := fx.addWebhook(t, process, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if duringTest != nil {
			duringTest()
		}
		return failing.handle(ctx, m)
	})
	fx.emit(t, owner, 1)
	fx.fanOut(t, process)
	failing.awaitMessages(t, 1)
	process.worker.WaitIdle()
	fx.advance(time.Minute)
	duringTest = func() {
		duringTest = nil
		fx.wakeDue(t, process) // the next try is due, but the endpoint is busy
	}
	_, err := process.Test(t.Context(), owner, failingWebhook.ID)
	apptest.Must(t, err)
	if messages := failing.awaitMessages(t, 1); len(messages) != 2 {
		t.Fatalf("%d messages after the test, want 2", len(messages))
	}
	fx.wakeDue(t, process)
	failing.awaitMessages(t, 1)
	if deliveries := fx.deliveries(t, process, failingWebhook.Webhook); len(deliveries) != 2 || len(deliveries[1].Attempts) != 2 {
		t.Errorf("the deliveries are %+v, want 2, the older one with 2 attempts", deliveries)
	}
}

// resultStore is a store that only stores the results of deliveries. Each call waits until the test
// sends the error that the call must return.
type resultStore struct {
	ports.Deliveries
	batchSizes chan int // receives the number of results of each call
	answer     chan error
}

func (s resultStore) SaveDeliveries(_ context.Context, tried []ports.TriedDelivery, _ time.Time) ([]ports.SavedDelivery, error) {
	s.batchSizes <- len(tried)
	switch err := <-s.answer; {
	case errors.Is(err, errCrashed):
		panic(err) // a panic must have the same effect as an error of the store
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
		store := resultStore{batchSizes: make(chan int, 10), answer: make(chan error)}
		tries := &webhooks.Tries{Deliveries: store, Now: time.Now, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)}
		type tryResult struct {
			hasDue bool
			err    error
		}
		endedTries := make(chan tryResult, 20)
		startTry := func(id string) {
			go func() {
				tried, err := tries.Try(t.Context(), ports.ClaimedDelivery{Delivery: webhook.Delivery{ID: id}}) // without an event nothing is sent
				endedTries <- tryResult{tried.HasDue, err}
			}()
			synctest.Wait()
		}
		startTry("first")
		for range 8 {
			startTry("")
		}
		startTry("due")
		if n := <-store.batchSizes; n != 1 || len(store.batchSizes) != 0 {
			t.Fatalf("the first call has %d results and %d calls follow, want 1 result and no call before the answer", n, len(store.batchSizes))
		}
		store.answer <- errCrashed
		if n := <-store.batchSizes; n != 9 {
			t.Errorf("the second call has %d results, want 9", n)
		}
		if ended := <-endedTries; ended.err == nil {
			t.Error("the try whose result is not stored returned no error")
		}
		store.answer <- fault.ServiceUnavailable.With("busy")
		if n := <-store.batchSizes; n != 9 || len(endedTries) != 0 {
			t.Errorf("the call is repeated with %d results and %d tries have ended, want 9 results and no ended try", n, len(endedTries))
		}
		store.answer <- nil
		dueCount := 0
		for range 9 {
			ended := <-endedTries
			if ended.hasDue {
				dueCount++
			}
			if ended.err != nil {
				t.Error(ended.err)
			}
		}
		if dueCount != 1 {
			t.Errorf("%d tries report that their webhook has due deliveries, want 1", dueCount)
		}
		time.Sleep(time.Minute) // in fake time, until the pause after the last batch has ended
	})
}
