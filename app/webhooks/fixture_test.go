// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// fixture has a store, a queue, the endpoints of webhooks and a clock, which the processes of
// startProcess share.
type fixture struct {
	store  *bunstore.Store
	sealer ports.Sealer
	queue  fake.Wakeups
	sender *endpointSender
	// emitters has the id of the webhook that the method emit enables and disables, by account.
	emitters map[access.AccountID]string

	mu    sync.Mutex
	clock time.Time
}

// process has the services of one process.
type process struct {
	*webhooks.Service
	worker *webhooks.Worker
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{store: apptest.NewStore(t), sealer: apptest.NewSealer(t), sender: newEndpointSender(), emitters: map[access.AccountID]string{}, clock: time.Now().UTC()}
}

// now returns the time of the clock.
func (fx *fixture) now() time.Time {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.clock
}

// advance moves the clock forward.
func (fx *fixture) advance(d time.Duration) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.clock = fx.clock.Add(d)
}

// startProcess starts a process whose worker claims deliveries, but fans out no events by itself.
// The end of the test stops the worker. If changeOptions is not nil, it may change the options of
// the worker.
func (fx *fixture) startProcess(t testing.TB, changeOptions func(*webhooks.Options)) process {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	options := webhooks.Options{Webhooks: fx.store, Deliveries: fx.store, Queue: &fx.queue, Logged: fx.store.EventsLogged(), Now: fx.now, Log: log}
	if changeOptions != nil {
		changeOptions(&options)
	}
	options.Tries = &webhooks.Tries{Deliveries: options.Deliveries, Sender: fx.sender, Sealer: fx.sealer, Now: fx.now, Chance: func() float64 { return 0 }, Log: log}
	p := process{&webhooks.Service{Webhooks: options.Webhooks, Deliveries: options.Deliveries, Sender: fx.sender, Sealer: fx.sealer, Tries: options.Tries, Queue: &fx.queue,
		Random: rand.Reader, Now: fx.now}, webhooks.NewWorker(options)}
	p.worker.StartClaims()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), apptest.HangTimeout)
		defer cancel()
		if err := p.worker.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (fx *fixture) createAccount(t testing.TB, name string) access.AccountID {
	t.Helper()
	account, err := fx.store.CreateAccount(t.Context(), name+"@example.test", "complete", 0, fx.now())
	apptest.Must(t, err)
	return account.ID
}

// addWebhook adds a webhook whose endpoint answers each message with the response of handle.
func (fx *fixture) addWebhook(t testing.TB, p process, owner access.AccountID, handle func(context.Context, webhook.Message) webhook.Response) webhooks.WebhookWithSecret {
	t.Helper()
	url := fmt.Sprintf("https://%d.test/", fx.sender.add(handle))
	created, err := p.Create(t.Context(), webhooks.NewWebhook{Account: owner, URL: url}, nil)
	apptest.Must(t, err)
	return created
}

// emit logs n events of the account. For each event it enables and disables a webhook, which the
// first call adds for this purpose. Only the disabling logs an event.
func (fx *fixture) emit(t testing.TB, owner access.AccountID, n int) {
	t.Helper()
	fx.mu.Lock()
	id := fx.emitters[owner]
	fx.mu.Unlock()
	if id == "" {
		id = fx.newID()
		apptest.Must(t, fx.store.AddWebhook(t.Context(), webhook.Webhook{ID: id, Account: owner, URL: "https://switch.test/", Status: webhook.Disabled,
			Types: []event.Type{event.KeyCreated}, Secrets: webhook.Secrets{Current: []byte("none")}, CreatedAt: fx.now()}, nil))
		fx.mu.Lock()
		fx.emitters[owner] = id
		fx.mu.Unlock()
	}
	for range n {
		for _, status := range []webhook.Status{webhook.Enabled, webhook.Disabled} {
			_, err := fx.store.ChangeWebhook(t.Context(), owner, id, webhook.ReasonRequested, nil, func(w *webhook.Webhook) { w.Status = status })
			apptest.Must(t, err)
		}
	}
}

// fanOut runs the fan-out until no events are left.
func (fx *fixture) fanOut(t testing.TB, p process) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = p.worker.FanOut(t.Context())
		apptest.Must(t, err)
	}
}

func (fx *fixture) newID() string {
	return ident.New(fx.now(), [ident.EntropyBytes]byte([]byte(rand.Text())[:ident.EntropyBytes]))
}

// wakeDue passes all wake-ups so far to the worker of a process, as the queue does when they are
// due. The worker then claims the deliveries that are due.
func (fx *fixture) wakeDue(t testing.TB, p process) {
	t.Helper()
	for _, wakeup := range fx.queue.Take() {
		apptest.Must(t, p.worker.Handle(t.Context(), wakeup))
	}
	_, err := p.worker.Claim(t.Context())
	apptest.Must(t, err)
}

// endpointSender is a sender whose endpoints are functions.
type endpointSender struct {
	mu     sync.Mutex
	byURL  map[string]func(context.Context, webhook.Message) webhook.Response
	urlErr error // the result of CheckURL
}

func newEndpointSender() *endpointSender {
	return &endpointSender{byURL: map[string]func(context.Context, webhook.Message) webhook.Response{}}
}

// add adds an endpoint and returns its number, which is part of its URL.
func (e *endpointSender) add(handle func(context.Context, webhook.Message) webhook.Response) (number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	number = len(e.byURL)
	e.byURL[fmt.Sprintf("https://%d.test/", number)] = handle
	return number
}

func (e *endpointSender) CheckURL(context.Context, string) error { return e.urlErr }

func (e *endpointSender) Send(ctx context.Context, m webhook.Message) webhook.Response {
	e.mu.Lock()
	handle := e.byURL[m.URL]
	e.mu.Unlock()
	return handle(ctx, m)
}

// recorder is an endpoint that records messages and answers with a status.
type recorder struct {
	mu       sync.Mutex
	status   int
	messages []webhook.Message
	arrived  chan struct{} // receives a value for each message
}

func newRecorder(status int) *recorder {
	return &recorder{status: status, arrived: make(chan struct{}, 10_000)}
}

func (r *recorder) handle(_ context.Context, m webhook.Message) webhook.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, m)
	r.arrived <- struct{}{}
	return webhook.Response{StatusCode: r.status}
}

// setStatus sets the status of later answers.
func (r *recorder) setStatus(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// awaitMessages waits for n more messages and returns all messages so far.
func (r *recorder) awaitMessages(t testing.TB, n int) []webhook.Message {
	t.Helper()
	for range n {
		select {
		case <-r.arrived:
		case <-time.After(apptest.HangTimeout):
			t.Fatal("no message arrived")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]webhook.Message(nil), r.messages...)
}

// deliveries waits until the process sends no delivery, and returns the deliveries of the webhook,
// newest first.
func (fx *fixture) deliveries(t testing.TB, p process, w webhook.Webhook) []webhook.Delivery {
	t.Helper()
	p.worker.WaitIdle()
	list, _, err := p.ListDeliveries(t.Context(), w.Account, w.ID, ports.DeliveryQuery{Limit: 1000})
	apptest.Must(t, err)
	return list
}
