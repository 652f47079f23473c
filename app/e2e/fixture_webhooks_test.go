// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// webhookReceiver is an endpoint on loopback. It keeps the messages that it gets, in their order,
// and checks that each is as documented.
type webhookReceiver struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	messages []webhookMessage
	// respond answers a message. A nil respond answers 200. tries counts the messages with this
	// webhook-id so far, including this one.
	respond func(w http.ResponseWriter, r *http.Request, message webhookMessage, tries int)
}

// webhookMessage is a message as an endpoint gets it.
type webhookMessage struct {
	id, timestamp, signature string
	body                     []byte
	object
}

// newWebhookReceiver starts an endpoint that answers 200.
func newWebhookReceiver(t *testing.T) *webhookReceiver {
	t.Helper()
	receiver := &webhookReceiver{t: t}
	server := httptest.NewServer(http.HandlerFunc(receiver.receive))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	receiver.url = server.URL + "/hook"
	return receiver
}

func (r *webhookReceiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender was killed
	}
	message := webhookMessage{id: req.Header.Get("webhook-id"), timestamp: req.Header.Get("webhook-timestamp"), signature: req.Header.Get("webhook-signature"), body: body}
	if err := json.Unmarshal(body, &message.object); err != nil || req.Method != http.MethodPost || req.URL.Path != "/hook" || req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("a message is not a POST request with JSON to /hook: %s %s %q: %v\n%s", req.Method, req.URL, req.Header, err, body)
	} else if err := checkDocumentedMessage(req.Header, message.text("type"), body); err != nil {
		r.t.Errorf("a message differs from the OpenAPI document: %v\n%s", err, body)
	}
	r.mu.Lock()
	r.messages = append(r.messages, message)
	tries, respond := countMessages(r.messages)[message.id], r.respond
	r.mu.Unlock()
	if respond != nil {
		respond(w, req, message, tries)
	}
}

func (r *webhookReceiver) respondWith(respond func(w http.ResponseWriter, r *http.Request, message webhookMessage, tries int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = respond
}

// answerStatus makes the receiver answer every message with a status. It asks for a pause of a day,
// so that a message that failed is not tried again before the test moves the clock.
func (r *webhookReceiver) answerStatus(status int) {
	r.respondWith(func(w http.ResponseWriter, _ *http.Request, _ webhookMessage, _ int) {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(status)
	})
}

func (r *webhookReceiver) received() []webhookMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

// waitFor waits for a message for which isWanted returns true. It ignores the first skip messages.
func (r *webhookReceiver) waitFor(subject string, skip int, isWanted func(webhookMessage) bool) (found webhookMessage) {
	r.t.Helper()
	client{t: r.t}.eventually(subject, func() bool {
		after := r.received()[skip:]
		i := slices.IndexFunc(after, isWanted)
		if i >= 0 {
			found = after[i]
		}
		return i >= 0
	})
	return found
}

// waitAll waits until the receiver has a message for each of these events.
func (r *webhookReceiver) waitAll(events []object) {
	r.t.Helper()
	client{t: r.t}.eventually("every event arrives", func() bool {
		got := countMessages(r.received())
		return !slices.ContainsFunc(events, func(e object) bool { return got[e.text("id")] == 0 })
	})
}

func countMessages(messages []webhookMessage) map[string]int {
	counts := map[string]int{}
	for _, message := range messages {
		counts[message.id]++
	}
	return counts
}

// data returns the member data of a message, which is the event.
func (m webhookMessage) data() object {
	event, _ := m.object["data"].(map[string]any)
	return event
}

// checkSigned verifies a message as the specification of Standard Webhooks describes it. Exactly
// the given secrets must have signed the message.
func (m webhookMessage) checkSigned(t *testing.T, secrets ...string) {
	t.Helper()
	sentAt, err := strconv.ParseInt(m.timestamp, 10, 64)
	if age := time.Since(time.Unix(sentAt, 0)); err != nil || age > 10*time.Minute || age < -time.Minute {
		t.Errorf("message %s has the webhook-timestamp %q, want about the current time", m.id, m.timestamp)
	}
	var want []string
	for _, text := range secrets {
		encoded, prefixed := strings.CutPrefix(text, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(key) != 32 {
			t.Fatalf("a secret has %d characters and is not whsec_ with 32 bytes: %v", len(text), err)
		}
		mac := hmac.New(sha256.New, key)
		_, _ = io.WriteString(mac, m.id+"."+m.timestamp+"."+string(m.body))
		want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	got := strings.Split(m.signature, " ")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("message %s has the signatures %q, want %q", m.id, got, want)
	}
}

// addWebhook creates a webhook and returns its path and its secret.
func (c caller) addWebhook(url string, types ...string) (path, secret string) {
	c.t.Helper()
	created := c.post("/v1/webhooks", object{"url": url, "event_types": types})
	checkValues(c.t, created.object, object{"url": url, "status": "enabled", "event_types": types})
	return "/v1/webhooks/" + created.text("id"), created.text("secret")
}

// logKeyEvent adds one event to the log by creating an API key. It returns the path of the key.
func (c caller) logKeyEvent() string {
	c.t.Helper()
	created := c.post("/v1/keys", object{"name": fmt.Sprintf("key %d", uniqueNumber.Add(1)), "scopes": []string{"events:read"}})
	return "/v1/keys/" + created.text("id")
}

// isAboutKey returns a function that reports whether a message is about the key at this path.
func isAboutKey(path string) func(webhookMessage) bool {
	return func(message webhookMessage) bool {
		return "/v1/keys/"+fmt.Sprint(message.object.valueAt("data.subject.id")) == path
	}
}

// eventsAfter returns the events of the log after a cursor, or all events if the cursor is "".
func (c caller) eventsAfter(cursor string) (events []object) {
	c.t.Helper()
	for {
		path := "/v1/events?limit=100"
		if cursor != "" {
			path += "&after=" + cursor
		}
		page := c.get(path)
		events = append(events, page.objects("events")...)
		if cursor = page.text("next_cursor"); page.object["has_more"] != true || c.t.Failed() {
			return events
		}
	}
}

// deliveries returns all deliveries of a webhook, newest first, read in small pages. If status is
// not empty, it returns only the deliveries with this status.
func (c caller) deliveries(path, status string) (deliveries []object) {
	c.t.Helper()
	query := "?limit=3"
	if status != "" {
		query += "&status=" + status
	}
	for cursor := ""; ; {
		page := c.get(path + "/deliveries" + query + cursor)
		list := page.objects("deliveries")
		if len(list) > 3 {
			c.t.Errorf("a page of 3 has %d deliveries", len(list))
		}
		deliveries = append(deliveries, list...)
		if page.object["next_cursor"] == nil || c.t.Failed() {
			return deliveries
		}
		cursor = "&after=" + page.text("next_cursor")
	}
}

// timedOut reports whether an attempt, or the result of a test message, ended with the service's
// timeout. On a busy machine the endpoint can answer after it. The service then tries the delivery
// again. No other error can come from a slow machine.
func timedOut(attempt object) bool {
	return attempt["status_code"] == nil && attempt["error"] == "the endpoint did not answer within 15 seconds"
}

// attemptsInTime returns the attempts of a delivery that did not time out.
func attemptsInTime(delivery object) []object {
	return slices.DeleteFunc(delivery.objects("attempts"), timedOut)
}

// deliveryOf returns the delivery of an event, or nil if the webhook has none.
func (c caller) deliveryOf(path, eventID string) object {
	c.t.Helper()
	for _, d := range c.deliveries(path, "") {
		if d.text("event_id") == eventID {
			return d
		}
	}
	return nil
}

// waitDelivery waits until the delivery of an event has this status and number of answered
// attempts. If status is failed, attempts that timed out count too, because they also use up the
// tries of the delivery. If a try after the first timed out, waitDelivery moves the sandbox's clock
// to the next try. Attempts without an answer for other reasons fail the test.
func (c caller) waitDelivery(path, eventID, status string, answered int) (found object) {
	c.t.Helper()
	movedAfter := 0 // the number of attempts after which the clock was last moved
	c.eventually(fmt.Sprintf("the delivery of %s is %s after %d answered attempts", eventID, status, answered), func() bool {
		if found = c.deliveryOf(path, eventID); found == nil {
			return false
		}
		attempts := found.objects("attempts")
		// The second try needs no move, because it follows after a few seconds.
		if n := len(attempts); n > max(1, movedAfter) && timedOut(attempts[n-1]) && found.text("status") == "pending" {
			movedAfter = n
			c.moveClockToNextTry(found)
		}
		inTime := len(attemptsInTime(found))
		hasAttempts := inTime == answered || status == "failed" && inTime < answered && len(attempts) >= answered
		return hasAttempts && found.text("status") == status
	})
	for _, attempt := range attemptsInTime(found) {
		if attempt["status_code"] == nil {
			c.t.Errorf("an attempt of the delivery %v got no answer, want an answer or a timeout", found)
		}
	}
	return found
}

// checkArrivals checks that an endpoint got one message for each stored attempt of its webhook. A
// message of an attempt that timed out may not have arrived.
func (c caller) checkArrivals(receiver *webhookReceiver, path string) {
	c.t.Helper()
	attempts, inTime := 0, 0
	for _, d := range c.deliveries(path, "") {
		attempts += len(d.objects("attempts"))
		inTime += len(attemptsInTime(d))
	}
	if n := len(receiver.received()); n < inTime || n > attempts {
		c.t.Errorf("%d messages arrived at %s after %d attempts, of which %d timed out, want one message for each attempt", n, path, attempts, attempts-inTime)
	}
}

// moveClockToNextTry advances the sandbox's clock by the time between the last attempt of a pending
// delivery and its next try.
func (c caller) moveClockToNextTry(delivery object) {
	c.t.Helper()
	next, err := time.Parse(time.RFC3339, delivery.text("next_attempt_at"))
	must(c.t, err)
	last := attemptTime(c.t, delivery, len(delivery.objects("attempts"))-1)
	c.control("POST", "/clock", object{"advance": next.Sub(last).String()})
}
