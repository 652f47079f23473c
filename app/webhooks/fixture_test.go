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

// fixture has a store, the endpoints of its webhooks and a clock. process returns the services of a
// process over them.
type fixture struct {
	store  *bunstore.Store
	sealer ports.Sealer
	queue  fake.Wakeups
	sender *endpoints
	// emitters are the webhooks that emit disables, by account.
	emitters map[access.AccountID]string

	mu    sync.Mutex
	clock time.Time
}

// process is what one process runs.
type process struct {
	*webhooks.Service
	worker *webhooks.Worker
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{store: apptest.NewStore(t), sealer: apptest.NewSealer(t), sender: newEndpoints(), emitters: map[access.AccountID]string{}, clock: time.Now().UTC()}
}

func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock = f.clock.Add(d)
}

// process returns a process that is stopped at the end of the test. change may replace its ports.
func (f *fixture) process(t testing.TB, change func(*webhooks.Options)) process {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	o := webhooks.Options{Webhooks: f.store, Deliveries: f.store, Queue: &f.queue, Logged: f.store.EventsLogged(), Now: f.now, Log: log}
	if change != nil {
		change(&o)
	}
	o.Tries = &webhooks.Tries{Deliveries: o.Deliveries, Sender: f.sender, Sealer: f.sealer, Now: f.now, Chance: func() float64 { return 0 }, Log: log}
	p := process{&webhooks.Service{Webhooks: o.Webhooks, Deliveries: o.Deliveries, Sender: f.sender, Sealer: f.sealer, Tries: o.Tries, Queue: &f.queue,
		Random: rand.Reader, Now: f.now}, webhooks.NewWorker(o)}
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

func (f *fixture) account(t testing.TB, name string) access.AccountID {
	t.Helper()
	a, err := f.store.CreateAccount(t.Context(), name+"@example.test", "complete", 0, f.now())
	apptest.Must(t, err)
	return a.ID
}

// webhook adds a webhook whose endpoint handles messages with handle.
func (f *fixture) webhook(t testing.TB, p process, owner access.AccountID, handle func(context.Context, webhook.Message) webhook.Response) webhooks.WebhookWithSecret {
	t.Helper()
	url := fmt.Sprintf("https://%d.test/", f.sender.add(handle))
	w, err := p.Create(t.Context(), webhooks.NewWebhook{Account: owner, URL: url}, nil)
	apptest.Must(t, err)
	return w
}

// emit logs n events of the account, by disabling a separate webhook n times.
func (f *fixture) emit(t testing.TB, owner access.AccountID, n int) {
	t.Helper()
	f.mu.Lock()
	id := f.emitters[owner]
	f.mu.Unlock()
	if id == "" {
		id = f.newID()
		apptest.Must(t, f.store.AddWebhook(t.Context(), webhook.Webhook{ID: id, Account: owner, URL: "https://switch.test/", Status: webhook.Disabled,
			Types: []event.Type{event.KeyCreated}, Secrets: webhook.Secrets{Current: []byte("none")}, CreatedAt: f.now()}, nil))
		f.mu.Lock()
		f.emitters[owner] = id
		f.mu.Unlock()
	}
	for range n {
		for _, status := range []webhook.Status{webhook.Enabled, webhook.Disabled} {
			_, err := f.store.ChangeWebhook(t.Context(), owner, id, webhook.ReasonRequested, nil, func(w *webhook.Webhook) { w.Status = status })
			apptest.Must(t, err)
		}
	}
}

// fanOut runs the fan-out until no events are left.
func (f *fixture) fanOut(t testing.TB, p process) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = p.worker.FanOut(t.Context())
		apptest.Must(t, err)
	}
}

func (f *fixture) newID() string {
	return ident.New(f.now(), [ident.Entropy]byte([]byte(rand.Text())[:ident.Entropy]))
}

// wakeDue runs the handlers of all wake-ups so far, as the queue does when they are due. Then it
// claims the deliveries that have become due.
func (f *fixture) wakeDue(t testing.TB, p process) {
	t.Helper()
	for _, w := range f.queue.Take() {
		apptest.Must(t, p.worker.Handle(t.Context(), w))
	}
	_, err := p.worker.Claim(t.Context())
	apptest.Must(t, err)
}

// endpoints is a sender whose endpoints are functions.
type endpoints struct {
	mu     sync.Mutex
	byURL  map[string]func(context.Context, webhook.Message) webhook.Response
	refuse error // the result of CheckURL
}

func newEndpoints() *endpoints {
	return &endpoints{byURL: map[string]func(context.Context, webhook.Message) webhook.Response{}}
}

func (e *endpoints) add(handle func(context.Context, webhook.Message) webhook.Response) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.byURL)
	e.byURL[fmt.Sprintf("https://%d.test/", n)] = handle
	return n
}

func (e *endpoints) CheckURL(context.Context, string) error { return e.refuse }

func (e *endpoints) Send(ctx context.Context, m webhook.Message) webhook.Response {
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

func (r *recorder) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// wait waits for n messages and returns all messages so far.
func (r *recorder) wait(t testing.TB, n int) []webhook.Message {
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

// deliveries waits until no delivery of the webhook is being sent, and returns the deliveries.
func (f *fixture) deliveries(t testing.TB, p process, w webhook.Webhook) []webhook.Delivery {
	t.Helper()
	p.worker.WaitIdle()
	list, _, err := p.ListDeliveries(t.Context(), w.Account, w.ID, ports.DeliveryQuery{Limit: 1000})
	apptest.Must(t, err)
	return list
}
