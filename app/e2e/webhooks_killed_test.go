// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// killedSender is a sandbox with a webhook. Tests kill the sandbox while it sends messages.
type killedSender struct {
	*restartingSandbox
	receiver    *webhookReceiver
	webhookPath string // the API path of the webhook
	secret      string
	cursor      string // the end of the event log when the webhook was created
}

// newKilledSender starts a sandbox and adds a webhook for all events.
func newKilledSender(t *testing.T, flags ...string) *killedSender {
	t.Helper()
	server := &restartingSandbox{client: client{t: t}, build: requirePrograms(t, failpointBuild), dataDir: t.TempDir(), flags: append(flags, "--no-seed")}
	server.start()
	k := &killedSender{restartingSandbox: server, receiver: newWebhookReceiver(t)}
	k.webhookPath, k.secret = k.account().addWebhook(k.receiver.url, "*")
	k.cursor = k.account().get("/v1/events?after=now").text("next_cursor")
	return k
}

// account returns the account at the running service.
func (k *killedSender) account() caller { return seededAccount(k.t, k.ready) }

// restart kills the service and starts it again with these failpoints.
func (k *killedSender) restart(armed ...string) {
	k.t.Helper()
	k.process.kill()
	k.armedFailpoints = armed
	k.start()
}

// logEvent creates an API key, and thereby an event. The service may be killed before it answers.
func (k *killedSender) logEvent() {
	name := fmt.Sprintf("key %d", uniqueNumber.Add(1))
	_, _ = k.tryDo("POST", k.ready.APIURL+"/v1/keys", k.ready.APIKey, object{"name": name, "scopes": []string{"events:read"}})
}

// waitUntilDelivered waits until every event of the log is delivered, and checks the messages. It
// returns the events, how often each arrived, and how many stored attempts of each timed out.
//
// The claims of a killed process expire after 40 s. After that, the next change of the clock starts
// the claimed deliveries again.
func (k *killedSender) waitUntilDelivered() (events []object, arrivals, timeouts map[string]int) {
	k.t.Helper()
	c := k.account()
	events = c.eventsAfter(k.cursor)
	k.eventually("every event is delivered", func() bool {
		c.control("POST", "/clock", object{"advance": "1ms"})
		return len(c.deliveries(k.webhookPath, "delivered")) == len(events)
	})
	timeouts = map[string]int{}
	for _, d := range c.deliveries(k.webhookPath, "") {
		timeouts[d.text("event_id")] = len(d.objects("attempts")) - len(attemptsInTime(d))
	}
	arrivals = countMessages(k.receiver.received())
	for _, e := range events {
		if arrivals[e.text("id")] == 0 {
			k.t.Errorf("the event %v did not arrive", e)
		}
	}
	if len(arrivals) != len(events) {
		k.t.Errorf("%d events arrived, want the %d of the log", len(arrivals), len(events))
	}
	for _, message := range k.receiver.received() {
		message.checkSigned(k.t, k.secret)
	}
	return events, arrivals, timeouts
}

// TestWebhooksSurviveAKill kills the service with SIGKILL before, during or after the delivery of
// one event. After the restart each event arrives. An event whose delivery had begun arrives twice,
// with the same webhook-id. Attempts that time out, as on a busy machine, are repeated and can
// add arrivals.
func TestWebhooksSurviveAKill(t *testing.T) {
	t.Parallel()
	for _, kill := range []struct {
		moment   string // of the kill, relative to the delivery
		arrivals int    // how often the event in flight arrives
	}{{"before", 1}, {"during", 2}, {"after", 2}} {
		t.Run(kill.moment, func(t *testing.T) {
			withKilledSenders(t, func(t *testing.T, k *killedSender) {
				for range 3 {
					k.logEvent()
				}
				k.waitUntilDelivered()
				var inFlight int
				if kill.moment == "during" {
					inFlight = k.killDuringDelivery()
				} else {
					k.restart(kill.moment + " webhook send")
					k.logEvent()
					inFlight = 3
					k.waitForEnd()
					if !k.disarmHit() {
						t.Fatal("the service ended without a failpoint")
					}
				}
				k.restart()
				k.logEvent()
				k.logEvent()
				events, arrivals, timeouts := k.waitUntilDelivered()
				if len(events) != 6 {
					t.Fatalf("the log has %d events, want 6", len(events))
				}
				for i, e := range events {
					want := 1
					if i == inFlight {
						want = kill.arrivals
					}
					id := e.text("id")
					if n := arrivals[id]; n < want || n > want+timeouts[id] {
						t.Errorf("event %d arrived %d times with %d attempts that timed out, want %d arrivals, and at most one more for each of these attempts", i, n, timeouts[id], want)
					}
				}
			})
		})
	}
}

// withKilledSenders runs a test with a killedSender on SQLite and then with a killedSender on
// PostgreSQL. The two runs are not parallel: parallel subtests would begin only after other
// parallel tests, and these runs take long.
func withKilledSenders(t *testing.T, test func(*testing.T, *killedSender)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, newKilledSender(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newKilledSender(t, "--database", testserver.Database(t))) })
}

func (k *killedSender) waitForEnd() {
	k.t.Helper()
	k.eventually("the service is killed", func() bool {
		select {
		case <-k.process.done:
			return true
		default:
			return false
		}
	})
}

// killDuringDelivery kills the service while the endpoint has a message and has not answered. It
// returns the index of the message's event in the log.
func (k *killedSender) killDuringDelivery() (index int) {
	k.t.Helper()
	messagesBefore := k.receiver.received()
	ctx, release := context.WithCancel(k.t.Context())
	defer release()
	k.receiver.respondWith(func(_ http.ResponseWriter, r *http.Request, _ webhookMessage, _ int) {
		select {
		case <-ctx.Done():
		case <-r.Context().Done(): // the sender was killed
		}
	})
	k.logEvent()
	k.receiver.waitFor("a message in flight", len(messagesBefore), func(webhookMessage) bool { return true })
	k.process.kill()
	k.receiver.respondWith(nil)
	return len(countMessages(messagesBefore))
}

// TestKillsLoseNoEvent kills the service several times while events are written and sent. After
// each kill at most four messages arrive again, because the service sends at most four at once to
// one endpoint. Messages that are repeated after an attempt that timed out do not count.
func TestKillsLoseNoEvent(t *testing.T) {
	t.Parallel()
	kills := 2
	if soak.Enabled() {
		kills = 12
	}
	withKilledSenders(t, func(t *testing.T, k *killedSender) {
		random := soak.Rand(t)
		for range kills {
			for range 3 + random.IntN(12) {
				k.logEvent()
			}
			messagesBefore := len(k.receiver.received())
			writerEnded, moreMessages := make(chan struct{}), 1+random.IntN(6)
			go func() { // writes until the service is killed
				defer close(writerEnded)
				for range 50 {
					k.logEvent()
				}
			}()
			k.eventually("more messages arrive", func() bool { return len(k.receiver.received()) >= messagesBefore+moreMessages })
			k.process.kill()
			<-writerEnded
			k.restart()
		}
		events, arrivals, timeouts := k.waitUntilDelivered()
		// repetitions returns how many arrivals of an event its attempts that timed out do not
		// explain.
		repetitions := func(e object) int { return arrivals[e.text("id")] - 1 - timeouts[e.text("id")] }
		repeated := slices.DeleteFunc(slices.Clone(events), func(e object) bool { return repetitions(e) < 1 })
		if len(repeated) > 4*kills {
			t.Errorf("%d of %d events arrived again after %d kills, want at most 4 for each kill", len(repeated), len(events), kills)
		}
		for _, e := range events {
			if n := repetitions(e); n > kills {
				t.Errorf("the event %v arrived again %d times, want at most %d", e, n, kills)
			}
		}
		t.Logf("%d events, %d of them arrived again after %d kills", len(events), len(repeated), kills)
	})
}
