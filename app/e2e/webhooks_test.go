// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWebhooksTellWhatHappened connects, uses and removes a tenant of an account with webhooks.
// Each event arrives once, is signed, and equals the event of GET /v1/events.
func TestWebhooksTellWhatHappened(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		receiver, filtered := newWebhookReceiver(t), newWebhookReceiver(t)
		path, secret := c.addWebhook(receiver.url, "*")
		filteredPath, _ := c.addWebhook(filtered.url, "domain.added", "tenant.removed")
		cursor := c.get("/v1/events?after=now").text("next_cursor")
		tenant := c.newConnectedTenant(object{"name": "Hook Ltd"})
		zone := tenant.newVerifiedDomain()
		tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
		tenant.expect("DELETE", tenant.path(""), nil, 200, "")
		logged := c.eventsAfter(cursor)
		receiver.waitAll(logged)
		messages := receiver.received()
		byID := map[string]object{}
		for _, event := range logged {
			byID[event.text("id")] = event
		}
		for _, message := range messages {
			message.checkSigned(t, secret)
			event := byID[message.id]
			if !reflect.DeepEqual(message.data(), event) {
				t.Errorf("the message has the event %v, want %v from the log", message.data(), event)
			}
			checkMembers(t, "a message", message.object, "type timestamp data")
			checkValues(t, message.object, object{"type": event["type"], "timestamp": event["at"]})
		}
		for _, kind := range []string{"tenant.connected", "domain.added", "domain.verified", "mailbox.created", "tenant.removed"} {
			if !slices.ContainsFunc(messages, func(message webhookMessage) bool { return message.text("type") == kind }) {
				t.Errorf("no message has the type %s", kind)
			}
		}
		c.checkDeliveries(receiver, path, logged)
		wanted := slices.DeleteFunc(slices.Clone(logged), func(event object) bool {
			return event.text("type") != "domain.added" && event.text("type") != "tenant.removed"
		})
		filtered.waitAll(wanted)
		c.checkDeliveries(filtered, filteredPath, wanted)
	})
}

// checkDeliveries checks that the webhook got exactly these events, and that its list has one
// successful delivery for each, newest first, over pages and with each filter. An event may arrive
// again only after an attempt that timed out.
func (c caller) checkDeliveries(receiver *webhookReceiver, path string, events []object) {
	c.t.Helper()
	c.eventually("each delivery is stored", func() bool { return len(c.deliveries(path, "delivered")) == len(events) })
	listed, deliveredIDs, arrived := c.deliveries(path, ""), map[string]bool{}, countMessages(receiver.received())
	if len(arrived) != len(events) {
		c.t.Errorf("the webhook got %d events, want %d", len(arrived), len(events))
	}
	for _, d := range listed {
		deliveredIDs[d.text("event_id")] = true
		attempts, answered := d.objects("attempts"), attemptsInTime(d)
		if len(answered) != 1 || answered[0]["status_code"] != 200.0 || answered[0]["error"] != nil || d["next_attempt_at"] != nil || d["status"] != "delivered" {
			c.t.Errorf("the delivery is %v, want one answered attempt, with the status 200", d)
		}
		if n := arrived[d.text("event_id")]; n > len(attempts) {
			c.t.Errorf("the event of the delivery %v arrived %d times, want at most %d", d, n, len(attempts))
		}
		checkMembers(c.t, "a delivery", d, "id event_id event_type status attempts next_attempt_at")
		checkMembers(c.t, "an attempt", attempts[0], "at status_code error duration_ms")
	}
	for _, e := range events {
		if !deliveredIDs[e.text("id")] {
			c.t.Errorf("no delivery of %v is listed", e)
		}
	}
	newestFirst := func(a, b object) int { return strings.Compare(b.text("id"), a.text("id")) }
	if len(listed) != len(events) || !slices.IsSortedFunc(listed, newestFirst) {
		c.t.Errorf("the list has %d deliveries of %d events, or is not newest first: %v", len(listed), len(events), listed)
	}
	for _, status := range []string{"pending", "failed"} {
		if n := len(c.deliveries(path, status)); n != 0 {
			c.t.Errorf("%d deliveries are %s, want none", n, status)
		}
	}
}

// TestWebhooksAreTriedAgain lets an endpoint refuse a message twice. The test moves the sandbox's
// clock to the next tries. Each try has the same webhook-id and body.
func TestWebhooksAreTriedAgain(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		receiver := newWebhookReceiver(t)
		path, secret := c.addWebhook(receiver.url, "key.created")
		receiver.respondWith(func(w http.ResponseWriter, _ *http.Request, message webhookMessage, _ int) {
			switch len(attemptsInTime(c.deliveryOf(path, message.id))) {
			case 0:
				w.WriteHeader(http.StatusInternalServerError)
			case 1:
				w.Header().Set("Retry-After", "7200")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		first := receiver.waitFor("the first try", 0, isAboutKey(c.logKeyEvent()))
		var delivery object
		c.eventually("the first answer is stored", func() bool {
			delivery = c.deliveryOf(path, first.id)
			return len(attemptsInTime(delivery)) > 0
		})
		if len(attemptsInTime(delivery)) == 1 { // the second try may have begun, or even ended
			c.moveClockToNextTry(delivery)
		}
		failed := c.waitDelivery(path, first.id, "pending", 2)
		checkPause(t, failed, 2*time.Hour) // Retry-After applies because it is longer than the 5 minutes of the schedule
		if pause := attemptTime(t, failed, 1).Sub(attemptTime(t, failed, 0)); pause < 5*time.Second {
			t.Errorf("the second try began %s after the first, want at least 5 s", pause)
		}
		arrivedBefore := countMessages(receiver.received())[first.id]
		c.control("POST", "/clock", object{"advance": "1h"})
		if n := countMessages(receiver.received())[first.id]; n != arrivedBefore {
			t.Errorf("an hour before the third try is due, %d tries have arrived, want %d", n, arrivedBefore)
		}
		c.control("POST", "/clock", object{"advance": "61m"})
		delivered := c.waitDelivery(path, first.id, "delivered", 3)
		var statuses []any
		for _, attempt := range attemptsInTime(delivered) {
			statuses = append(statuses, attempt["status_code"])
		}
		if !reflect.DeepEqual(statuses, []any{500.0, 503.0, 200.0}) || delivered["next_attempt_at"] != nil {
			t.Errorf("the tries got the answers %v, want 500, 503 and 200: %v", statuses, delivered)
		}
		tries := 0
		for _, message := range receiver.received() {
			if message.id == first.id {
				tries++
				message.checkSigned(t, secret)
				if string(message.body) != string(first.body) {
					t.Errorf("try %d has the body %s, want %s as in the first try", tries, message.body, first.body)
				}
			}
		}
		if attempts := len(delivered.objects("attempts")); tries < 3 || tries > attempts {
			t.Errorf("%d tries arrived, want at least the 3 that were answered, and at most the %d stored ones", tries, attempts)
		}
	})
}

// attemptTime returns the time at which a try of a delivery began.
func attemptTime(t *testing.T, delivery object, i int) time.Time {
	t.Helper()
	began, err := time.Parse(time.RFC3339, delivery.objects("attempts")[i].text("at"))
	must(t, err)
	return began
}

// checkPause checks the pause between the end of the last try of a delivery and its next try. It
// accepts up to a second less than want, and up to a minute more, because a busy machine can
// schedule the next try late.
func checkPause(t *testing.T, delivery object, want time.Duration) {
	t.Helper()
	attempts := delivery.objects("attempts")
	took, _ := attempts[len(attempts)-1]["duration_ms"].(float64)
	ended := attemptTime(t, delivery, len(attempts)-1).Add(time.Duration(took) * time.Millisecond)
	next, err := time.Parse(time.RFC3339, delivery.text("next_attempt_at"))
	if pause := next.Sub(ended); err != nil || pause < want-time.Second || pause > want+time.Minute {
		t.Errorf("the pause is %s, want %s: %v", pause, want, delivery)
	}
}

// TestWebhooksAreDisabled checks the two reasons that disable a webhook: the answer 410, and five
// days without a success. The event webhook.disabled is in the log and arrives at a different
// webhook. A webhook that is enabled again gets later events.
func TestWebhooksAreDisabled(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		gone, failing, watching := newWebhookReceiver(t), newWebhookReceiver(t), newWebhookReceiver(t)
		gone.answerStatus(http.StatusGone)
		failing.answerStatus(http.StatusInternalServerError)
		gonePath, _ := c.addWebhook(gone.url, "*")
		failingPath, _ := c.addWebhook(failing.url, "key.created")
		_, secret := c.addWebhook(watching.url, "webhook.disabled")
		key := c.logKeyEvent()
		message := gone.waitFor("the only message", 0, isAboutKey(key))
		checkDisabled := func(path, reason string) {
			t.Helper()
			id := strings.TrimPrefix(path, "/v1/webhooks/")
			notice := watching.waitFor(path+" is disabled", 0, func(m webhookMessage) bool { return m.object.valueAt("data.subject.id") == id })
			notice.checkSigned(t, secret)
			checkValues(t, notice.data(), object{"type": "webhook.disabled", "subject.type": "webhook", "tenant_id": nil, "data.status": "disabled", "data.reason": reason})
			if !slices.ContainsFunc(c.eventsAfter(""), func(e object) bool { return reflect.DeepEqual(e, notice.data()) }) {
				t.Errorf("the log does not have %v", notice.data())
			}
			checkValues(t, c.get(path).object, object{"status": "disabled"})
		}
		checkDisabled(gonePath, "gone")
		c.waitDelivery(gonePath, message.id, "failed", 1)

		firstTry := failing.waitFor("the first try", 0, isAboutKey(key))
		c.waitDelivery(failingPath, firstTry.id, "pending", 1)
		c.control("POST", "/clock", object{"advance": "119h"})
		c.waitDelivery(failingPath, firstTry.id, "pending", 2)
		checkValues(t, c.get(failingPath).object, object{"status": "enabled"})
		c.control("POST", "/clock", object{"advance": "25h"})
		checkDisabled(failingPath, "failing")
		c.waitDelivery(failingPath, firstTry.id, "failed", 3)
		c.checkArrivals(failing, failingPath)

		gone.answerStatus(http.StatusNoContent)
		c.expect("PATCH", gonePath, object{"status": "enabled"}, 200, "")
		laterEvent := gone.waitFor("an event after the webhook was enabled", 0, isAboutKey(c.logKeyEvent()))
		c.waitDelivery(gonePath, laterEvent.id, "delivered", 1)
		c.checkArrivals(gone, gonePath)
		if n := len(c.deliveries(gonePath, "")); n != 2 {
			t.Errorf("the webhook that was gone has %d deliveries, want 2", n)
		}
	})
}

// TestWebhookSecretsRotate checks which secrets sign the messages during a rotation and after it.
func TestWebhookSecretsRotate(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		receiver := newWebhookReceiver(t)
		path, firstSecret := c.addWebhook(receiver.url, "key.created")
		checkNextEvent := func(secrets ...string) {
			t.Helper()
			receiver.waitFor("the next event", 0, isAboutKey(c.logKeyEvent())).checkSigned(t, secrets...)
		}
		rotate := func(body any) string {
			t.Helper()
			rotated := c.post(path+"/rotate-secret", body)
			return rotated.text("secret")
		}
		checkNextEvent(firstSecret)
		secondSecret := rotate(nil)
		checkNextEvent(firstSecret, secondSecret)
		c.control("POST", "/clock", object{"advance": "25h"})
		checkNextEvent(secondSecret)
		thirdSecret := rotate(object{"overlap_hours": 2})
		checkNextEvent(secondSecret, thirdSecret)
		fourthSecret := rotate(object{"overlap_hours": 0})
		checkNextEvent(fourthSecret)
		if _, shown := c.get(path).object["secret"]; shown {
			t.Error("the answer to a read of the webhook contains the secret")
		}
	})
}

// TestWebhooksAreSentAgain redelivers a delivery, replays the log after a cursor and after a time,
// and sends a test message. It also checks that deliveries are deleted with their events.
func TestWebhooksAreSentAgain(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		receiver := newWebhookReceiver(t)
		path, secret := c.addWebhook(receiver.url, "key.created")
		beginning := c.get("/v1/events?after=now").text("next_cursor")
		c.logKeyEvent()
		c.control("POST", "/clock", object{"advance": "1h"}) // so that the events have different times
		cursor := c.get("/v1/events?after=now").text("next_cursor")
		secondKey := c.logKeyEvent()
		c.control("POST", "/clock", object{"advance": "1h"})
		c.logKeyEvent()
		logged := c.eventsAfter(beginning)
		receiver.waitAll(logged)
		c.eventually("all events are delivered", func() bool { return len(c.deliveries(path, "delivered")) == 3 })
		checkCounts := func(subject string, want ...int) {
			t.Helper()
			sum := 0
			for _, n := range want {
				sum += n
			}
			var attempts map[string][]object // by event; a replay adds a delivery with its own attempts
			c.eventually(subject, func() bool {
				answered, isPending := 0, false
				attempts = map[string][]object{}
				for _, d := range c.deliveries(path, "") {
					attempts[d.text("event_id")] = append(attempts[d.text("event_id")], d.objects("attempts")...)
					answered += len(attemptsInTime(d))
					isPending = isPending || d.text("status") == "pending"
				}
				return answered >= sum && !isPending
			})
			arrived := countMessages(receiver.received())
			for i, e := range logged {
				id := e.text("id")
				answered := 0
				for _, attempt := range attempts[id] {
					if !timedOut(attempt) {
						answered++
					}
				}
				if answered != want[i] || arrived[id] < answered || arrived[id] > len(attempts[id]) {
					t.Errorf("%s: event %d arrived %d times with the attempts %v, want %d answered attempts, and one arrival for each", subject, i, arrived[id], attempts[id], want[i])
				}
			}
		}
		checkCounts("each event arrives once", 1, 1, 1)
		original := c.waitDelivery(path, receiver.waitFor("the second event", 0, isAboutKey(secondKey)).id, "delivered", 1)
		redelivered := c.post(path+"/deliveries/"+original.text("id")+"/redeliver", nil)
		checkValues(t, redelivered.object, object{"id": original["id"], "event_id": original["event_id"], "status": "pending"})
		checkCounts("the second event is redelivered", 1, 2, 1)
		c.waitDelivery(path, original.text("event_id"), "delivered", 2)
		c.post(path+"/replay", object{"after": cursor})
		checkCounts("the events after a cursor are replayed", 1, 3, 2)
		thirdEventAt, err := time.Parse(time.RFC3339, logged[2].text("at"))
		must(t, err)
		c.post(path+"/replay", object{"after": thirdEventAt.Add(-time.Minute).Format(time.RFC3339)})
		checkCounts("the events after a time are replayed", 1, 3, 3)
		c.expect("POST", path+"/replay", object{"after": "yesterday"}, 400, "invalid_request")

		sendTest := func(body any) (result object) {
			t.Helper()
			c.eventually("a test message is answered before the service's timeout", func() bool {
				result = c.post(path+"/test", body).object
				return !timedOut(result)
			})
			return result
		}
		checkValues(t, sendTest(nil), object{"status": "delivered", "status_code": 200, "error": nil})
		messages := receiver.received()
		message := messages[len(messages)-1]
		checkValues(t, message.object, object{"type": "webhook.test", "data.type": "webhook.test", "data.subject.id": strings.TrimPrefix(path, "/v1/webhooks/")})
		if len(c.eventsAfter(beginning)) != len(logged) {
			t.Error("the log has an event of the test message")
		}
		c.waitDelivery(path, message.id, "delivered", 1)
		receiver.answerStatus(http.StatusTeapot)
		checkValues(t, sendTest(object{}), object{"status": "failed", "status_code": 418})
		for _, message := range receiver.received() {
			message.checkSigned(t, secret)
		}

		// Deliveries are kept as long as their events.
		newest := c.get(path + "/deliveries?limit=1").text("next_cursor")
		c.expect("GET", path+"/deliveries?after="+newest, nil, 200, "")
		c.control("POST", "/clock", object{"advance": "744h"})
		c.eventually("old deliveries are deleted", func() bool { return len(c.deliveries(path, "delivered")) == 0 })
		c.expect("GET", path+"/deliveries?after="+newest, nil, 410, "cursor_expired")
		c.expect("POST", path+"/replay", object{"after": beginning}, 410, "cursor_expired")
	})
}

// TestBoundedKeysHaveTheirOwnWebhooks creates a webhook with a key that is bounded to one tenant.
// The webhook gets only events of this tenant, and a key for a different tenant cannot find it.
func TestBoundedKeysHaveTheirOwnWebhooks(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		firstTenant, secondTenant := c.newTenant(nil).connect(), c.newTenant(nil).connect()
		newTenantKey := func(tenant accountTenant) caller {
			created := c.post("/v1/keys", object{"name": "bounded", "scopes": []string{"*"}, "tenant_ids": []string{tenant.guid}})
			return caller{c.client, c.id, c.email, created.text("api_key")}
		}
		firstKey, secondKey := newTenantKey(firstTenant), newTenantKey(secondTenant)
		receiver, accountReceiver := newWebhookReceiver(t), newWebhookReceiver(t)
		path, secret := firstKey.addWebhook(receiver.url, "*")
		accountWebhook, _ := c.addWebhook(accountReceiver.url, "*")
		cursor := c.get("/v1/events?after=now").text("next_cursor")
		for _, tenant := range []accountTenant{firstTenant, secondTenant, firstTenant} {
			tenant.newVerifiedDomain()
		}
		c.logKeyEvent() // an event without a tenant
		firstTenant.newVerifiedDomain()
		logged := c.eventsAfter(cursor)
		accountReceiver.waitAll(logged)
		ofTenant := slices.DeleteFunc(slices.Clone(logged), func(e object) bool { return e.text("tenant_id") != firstTenant.guid })
		if len(ofTenant) == 0 || len(ofTenant) == len(logged) {
			t.Fatalf("%d of %d events are of the tenant, want some but not all", len(ofTenant), len(logged))
		}
		receiver.waitAll(ofTenant)
		for _, message := range receiver.received() {
			message.checkSigned(t, secret)
			if message.object.valueAt("data.tenant_id") != firstTenant.guid {
				t.Errorf("the webhook of one tenant got %s, want only events of this tenant", message.body)
			}
		}
		firstKey.checkDeliveries(receiver, path, ofTenant)
		if visibleEvents := firstKey.get("/v1/events?limit=100&after=" + cursor).objects("events"); !reflect.DeepEqual(visibleEvents, ofTenant) {
			t.Errorf("the key sees the events %v, want those of the webhook: %v", visibleEvents, ofTenant)
		}

		delivery := firstKey.deliveries(path, "")[0].text("id")
		secondKey.expectNoWebhook(path, delivery)
		firstKey.expectNoWebhook(accountWebhook, delivery) // this webhook also gets events of other tenants
		ids := func(c caller) (ids []string) {
			for _, w := range c.get("/v1/webhooks").objects("webhooks") {
				ids = append(ids, "/v1/webhooks/"+w.text("id"))
			}
			return ids
		}
		if got := [][]string{ids(firstKey), ids(secondKey), ids(c)}; !reflect.DeepEqual(got, [][]string{{path}, nil, {accountWebhook, path}}) {
			t.Errorf("the keys for the first tenant, the second tenant and the account list the webhooks %v, want one, none and both", got)
		}
		checkValues(t, c.expect("DELETE", path, nil, 200, "").object, object{"status": "deleted"})
		firstKey.expect("GET", path, nil, 404, "webhook_not_found")
	})
}

// expectNoWebhook checks that every operation on the webhook answers 404.
func (c caller) expectNoWebhook(path, delivery string) {
	c.t.Helper()
	for _, call := range []struct {
		method, path string
		body         any
	}{
		{"GET", path, nil},
		{"PATCH", path, object{"description": "found"}},
		{"DELETE", path, nil},
		{"POST", path + "/rotate-secret", nil},
		{"POST", path + "/test", nil},
		{"GET", path + "/deliveries", nil},
		{"POST", path + "/deliveries/" + delivery + "/redeliver", nil},
		{"POST", path + "/replay", object{"after": "2026-01-01T00:00:00Z"}},
	} {
		c.expect(call.method, call.path, call.body, 404, "webhook_not_found")
	}
}

var (
	triesSample    = regexp.MustCompile(`(?m)^tenantry_webhook_attempts_total\{.*result="(\w+)".*\} (\S+)$`)
	lagCountSample = regexp.MustCompile(`(?m)^tenantry_webhook_lag_seconds_count(?:\{.*\})? (\S+)$`)
)

// TestWebhookMetricsAreExported checks the metrics after one accepted and one refused message.
func TestWebhookMetricsAreExported(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	accepting, refusing := newWebhookReceiver(t), newWebhookReceiver(t)
	refusing.answerStatus(http.StatusInternalServerError)
	path, _ := c.addWebhook(accepting.url, "key.created")
	refusingPath, _ := c.addWebhook(refusing.url, "key.created")
	key := c.logKeyEvent()
	accepted := c.waitDelivery(path, accepting.waitFor("the event", 0, isAboutKey(key)).id, "delivered", 1)
	refused := c.waitDelivery(refusingPath, refusing.waitFor("the event", 0, isAboutKey(key)).id, "pending", 1)
	timeouts := len(accepted.objects("attempts")) + len(refused.objects("attempts")) - 2
	metrics := c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	tries := map[string]string{}
	for _, sample := range triesSample.FindAllSubmatch(metrics, -1) {
		tries[string(sample[1])] = string(sample[2])
	}
	if want := map[string]string{"accepted": "1", "rejected": "1", "no_answer": strconv.Itoa(timeouts)}; !maps.Equal(tries, want) {
		t.Errorf("the tries are counted as %v, want %v", tries, want)
	}
	// The lag is recorded only if the first try was accepted.
	if found := lagCountSample.FindSubmatch(metrics); len(accepted.objects("attempts")) == 1 && (found == nil || string(found[1]) != "1") {
		t.Errorf("the count of lags is %q, want 1", found)
	}
	exported := parseMetrics(metrics)
	for name, labels := range metricsOfOtherTests {
		if !strings.HasPrefix(name, "tenantry_webhook_") {
			continue
		}
		if exported[name] == nil {
			t.Errorf("the metric %s is not exported", name)
		}
		for _, label := range labels {
			if len(exported[name][label]) == 0 {
				t.Errorf("the metric %s has no label %s", name, label)
			}
		}
	}
}

// TestWebhooksReachNoPrivateAddress creates a webhook at a private address in a sandbox that allows
// this. It then forbids private addresses, as the service does by default. URLs with private
// addresses, and other forbidden URLs, are refused when a webhook is created and when it is
// changed. The existing webhook gets no message.
func TestWebhooksReachNoPrivateAddress(t *testing.T) {
	t.Parallel()
	build, dataDir := requirePrograms(t, releaseBuild), t.TempDir()
	var connections atomic.Int64
	ports := map[string]string{}
	for _, host := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		must(t, err)
		server := &http.Server{ReadHeaderTimeout: waitTimeout, ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		_, ports[host], err = net.SplitHostPort(listener.Addr().String())
		must(t, err)
	}
	ipv4Port, ipv6Port := ports["127.0.0.1"], ports["::1"]

	p, ready := startDev(t, build, dataDir, nil, "--no-seed")
	path, _ := seededAccount(t, ready).addWebhook("http://127.0.0.1:"+ipv4Port+"/hook", "*")
	must(t, p.stop())

	_, ready = startDev(t, build, dataDir, []string{"TENANTRY_WEBHOOKS_ALLOW_PRIVATE=false"}, "--no-seed")
	c := seededAccount(t, ready)
	for _, url := range []string{
		"https://127.0.0.1:" + ipv4Port + "/", "http://127.0.0.1:" + ipv4Port + "/", "https://127.1.2.3:" + ipv4Port + "/", "https://0.0.0.0:" + ipv4Port + "/",
		"https://127.1:" + ipv4Port + "/", "https://2130706433:" + ipv4Port + "/", "https://0x7f000001:" + ipv4Port + "/", "https://localhost:" + ipv4Port + "/",
		"http://localhost:" + ipv4Port + "/", "https://[::ffff:127.0.0.1]:" + ipv4Port + "/", "https://[64:ff9b::7f00:1]:" + ipv4Port + "/", "https://[2002:7f00:1::]:" + ipv4Port + "/",
		"https://[::1]:" + ipv6Port + "/", "http://[::1]:" + ipv6Port + "/", "https://[::]:" + ipv6Port + "/", "https://LOCALHOST:" + ipv6Port + "/", "https://localhost.:" + ipv6Port + "/",
		"https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/",
		"https://[fd00::1]/", "https://[fe80::1]/", "https://[ff02::1]/", "https://user:password@93.184.216.34/", "http://93.184.216.34/", "ftp://93.184.216.34/",
	} {
		c.expect("POST", "/v1/webhooks", object{"url": url, "event_types": []string{"*"}}, 400, "invalid_webhook_url")
		c.expect("PATCH", path, object{"url": url}, 400, "invalid_webhook_url")
	}
	if n := len(c.get("/v1/webhooks").objects("webhooks")); n != 1 {
		t.Errorf("%d webhooks are stored, want 1", n)
	}
	checkValues(t, c.post(path+"/test", nil).object, object{"status": "failed", "status_code": nil, "error": "the host resolves to an address that is not public"})
	if n := connections.Load(); n != 0 {
		t.Errorf("the private addresses got %d connections, want none", n)
	}
}
