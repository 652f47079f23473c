// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// scriptedSender is a sender without a network. It refuses URLs that contain "private" or do not
// begin with https://. It answers each message with the status in the path of the URL, or with 200
// if the path is not a number.
type scriptedSender struct{}

func (scriptedSender) CheckURL(_ context.Context, raw string) error {
	if strings.Contains(raw, "private") || !strings.HasPrefix(raw, "https://") {
		return fault.InvalidWebhookURL.At("not allowed", fault.Field{Name: "url", Message: "not allowed"})
	}
	return nil
}

func (scriptedSender) Send(_ context.Context, m webhook.Message) webhook.Response {
	u, err := url.Parse(m.URL)
	if err != nil {
		return webhook.Response{Error: "bad URL"}
	}
	status, err := strconv.Atoi(strings.Trim(u.Path, "/"))
	if err != nil {
		status = http.StatusOK
	}
	return webhook.Response{StatusCode: status, Duration: 1500 * time.Microsecond}
}

func (env *testEnv) addWebhookService(sealer ports.Sealer) {
	sender := scriptedSender{}
	env.options.Webhooks = &webhooks.Service{Webhooks: env.store, Deliveries: env.store, Sender: sender, Sealer: sealer, Queue: &env.queue, Random: rand.Reader, Now: time.Now,
		Tries: &webhooks.Tries{Deliveries: env.store, Sender: sender, Sealer: sealer, Now: time.Now, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)}}
}

// addWebhook adds a webhook with one delivery, a test message.
func (env *testEnv) addWebhook(t *testing.T, owner testAccount) (webhookID, deliveryID string) {
	t.Helper()
	created, err := env.options.Webhooks.Create(t.Context(), webhooks.NewWebhook{Account: owner.account.ID, URL: "https://hooks.example.test/200"}, nil)
	must(t, err)
	if _, err := env.options.Webhooks.Test(t.Context(), owner.account.ID, created.ID); err != nil {
		t.Fatal(err)
	}
	deliveries, _, err := env.options.Webhooks.ListDeliveries(t.Context(), owner.account.ID, created.ID, ports.DeliveryQuery{Limit: 1})
	must(t, err)
	return created.ID, deliveries[0].ID
}

func TestWebhookLifecycle(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	key := env.accountA.key
	expect := func(method, path, body string, status int, code string) reply {
		t.Helper()
		return client.expect(call{method: method, path: path, body: body, key: key}, status, code)
	}
	const createBody = `{"url":"https://hooks.example.test/204","event_types":["domain.added"],"description":"one"}`
	created := expect(http.MethodPost, "/v1/webhooks", createBody, http.StatusOK, "")
	id, _ := created.body["id"].(string)
	secret, _ := created.body["secret"].(string)
	if !strings.HasPrefix(secret, "whsec_") || created.body["status"] != "enabled" || created.body["url"] != "https://hooks.example.test/204" ||
		created.body["description"] != "one" || created.header.Get("X-RateLimit-Bucket") != "write" || created.body["created_at"] == nil {
		t.Fatalf("got %v, want the enabled webhook with its secret, counted in the bucket write", created.body)
	}
	got := expect(http.MethodGet, "/v1/webhooks/"+id, "", http.StatusOK, "")
	if _, shown := got.body["secret"]; shown || got.body["id"] != id {
		t.Errorf("got %v, want the webhook without its secret", got.body)
	}
	changed := expect(http.MethodPatch, "/v1/webhooks/"+id, `{"event_types":["*"],"description":null,"url":"https://hooks.example.test/410"}`, http.StatusOK, "")
	if changed.body["description"] != nil || changed.body["url"] != "https://hooks.example.test/410" || !reflect.DeepEqual(changed.body["event_types"], []any{"*"}) {
		t.Errorf("got %v, want the new URL, all types and no description", changed.body)
	}
	rotated := expect(http.MethodPost, "/v1/webhooks/"+id+"/rotate-secret", "", http.StatusOK, "")
	if next, _ := rotated.body["secret"].(string); next == secret || !strings.HasPrefix(next, "whsec_") || rotated.body["previous_secret_expires_at"] == nil {
		t.Errorf("got %v, want a new secret and the expiry of the previous one", rotated.body)
	}
	if expiresAt := expect(http.MethodPost, "/v1/webhooks/"+id+"/rotate-secret", `{"overlap_hours":0}`, http.StatusOK, "").body["previous_secret_expires_at"]; expiresAt != nil {
		t.Errorf("without an overlap, the previous secret expires at %v, want no expiry", expiresAt)
	}
	tested := expect(http.MethodPost, "/v1/webhooks/"+id+"/test", "", http.StatusOK, "")
	if tested.body["status"] != "failed" || tested.body["status_code"] != 410.0 || tested.body["error"] == nil || tested.body["duration_ms"] != 1.0 {
		t.Errorf("the test got %v, want the status failed after a 410", tested.body)
	}
	if got := expect(http.MethodGet, "/v1/webhooks/"+id, "", http.StatusOK, ""); got.body["status"] != "disabled" {
		t.Errorf("after a 410 the webhook is %v, want the status disabled", got.body)
	}
	expect(http.MethodPatch, "/v1/webhooks/"+id, `{"status":"enabled","url":"https://hooks.example.test/204"}`, http.StatusOK, "")
	if tested := expect(http.MethodPost, "/v1/webhooks/"+id+"/test", "{}", http.StatusOK, ""); tested.body["status"] != "delivered" || tested.body["error"] != nil {
		t.Errorf("the test got %v, want the status delivered", tested.body)
	}
	deliveries := expect(http.MethodGet, "/v1/webhooks/"+id+"/deliveries?limit=1", "", http.StatusOK, "")
	newestDelivery := deliveries.body["deliveries"].([]any)[0].(map[string]any)
	attempt := newestDelivery["attempts"].([]any)[0].(map[string]any)
	if newestDelivery["status"] != "delivered" || newestDelivery["event_type"] != "webhook.test" || attempt["status_code"] != 204.0 || attempt["duration_ms"] != 1.0 || newestDelivery["next_attempt_at"] != nil {
		t.Errorf("the newest delivery is %v, want the delivered test", newestDelivery)
	}
	nextCursor, _ := deliveries.body["next_cursor"].(string)
	secondPage := expect(http.MethodGet, "/v1/webhooks/"+id+"/deliveries?after="+nextCursor, "", http.StatusOK, "")
	if failed := secondPage.body["deliveries"].([]any); len(failed) != 1 || failed[0].(map[string]any)["status"] != "failed" || secondPage.body["next_cursor"] != nil {
		t.Errorf("the second page is %v, want only the failed test", secondPage.body)
	}
	if failed := expect(http.MethodGet, "/v1/webhooks/"+id+"/deliveries?status=failed", "", http.StatusOK, ""); len(failed.body["deliveries"].([]any)) != 1 {
		t.Errorf("the failed deliveries are %v, want one", failed.body)
	}
	redelivered := expect(http.MethodPost, "/v1/webhooks/"+id+"/deliveries/"+newestDelivery["id"].(string)+"/redeliver", "", http.StatusOK, "")
	if woken := env.queue.Take(); redelivered.body["status"] != "pending" || redelivered.body["event_id"] != newestDelivery["event_id"] || len(woken) != 1 || woken[0].ID != id {
		t.Errorf("got %v and the wake-ups %v, want the pending delivery and one wake-up of the webhook", redelivered.body, woken)
	}
	for _, after := range []string{"2026-01-01T00:00:00Z", page.Cursor("0").Encode("events")} {
		if replayed := expect(http.MethodPost, "/v1/webhooks/"+id+"/replay", `{"after":"`+after+`"}`, http.StatusOK, ""); replayed.body["status"] != "queued" {
			t.Errorf("the replay from %s got %v, want the status queued", after, replayed.body)
		}
	}
	if dropped, err := env.store.DropEvents(t.Context(), time.Now().Add(48*time.Hour)); err != nil || dropped == 0 {
		t.Fatalf("%d events were dropped, want at least one (%v)", dropped, err)
	}
	// After all events are dropped, a replay is accepted from a time, and refused from a cursor.
	for _, after := range []string{"2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"} {
		expect(http.MethodPost, "/v1/webhooks/"+id+"/replay", `{"after":"`+after+`"}`, http.StatusOK, "")
	}
	expect(http.MethodPost, "/v1/webhooks/"+id+"/replay", `{"after":"`+page.Cursor("0").Encode("events")+`"}`, http.StatusGone, "cursor_expired")
	for range 9 { // an account can have 10 webhooks
		expect(http.MethodPost, "/v1/webhooks", createBody, http.StatusOK, "")
	}
	expect(http.MethodPost, "/v1/webhooks", createBody, http.StatusConflict, "webhook_limit_reached")
	var ids []string
	for after := ""; ; {
		webhookPage := expect(http.MethodGet, "/v1/webhooks?limit=4"+after, "", http.StatusOK, "")
		for _, listed := range webhookPage.body["webhooks"].([]any) {
			ids = append(ids, listed.(map[string]any)["id"].(string))
		}
		next, hasMore := webhookPage.body["next_cursor"].(string)
		if !hasMore {
			break
		}
		after = "&after=" + next
	}
	if len(ids) != 10 || ids[9] != id || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the pages list %v, want 10 webhooks, newest first", ids)
	}
	key = env.accountB.key
	if listOfB := expect(http.MethodGet, "/v1/webhooks", "", http.StatusOK, ""); len(listOfB.body["webhooks"].([]any)) != 0 || listOfB.body["next_cursor"] != nil {
		t.Errorf("account B gets %v, want no webhooks", listOfB.body)
	}
	key = env.accountA.key
	expect(http.MethodDelete, "/v1/webhooks/"+id, "", http.StatusOK, "")
	expect(http.MethodGet, "/v1/webhooks/"+id, "", http.StatusNotFound, "webhook_not_found")
	expect(http.MethodDelete, "/v1/webhooks/"+id, "", http.StatusNotFound, "webhook_not_found")
}

func TestWebhookRequestsAreChecked(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	id, _ := env.addWebhook(t, env.accountA)
	path := "/v1/webhooks/" + id
	for _, tc := range []struct{ method, path, body, code string }{
		{"POST", "/v1/webhooks", `{"url":"https://private.test/","event_types":["*"]}`, "invalid_webhook_url"},
		{"POST", "/v1/webhooks", `{"url":"","event_types":["*"]}`, "invalid_webhook_url"},
		{"POST", "/v1/webhooks", `{"event_types":["*"]}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":5,"event_types":["*"]}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/"}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":[]}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":null}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":["webhook.test"]}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":["*","*"]}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":["*"],"secret":"x"}`, "invalid_request"},
		{"POST", "/v1/webhooks", `{"url":"https://a.test/","event_types":["*"],"description":"` + strings.Repeat("x", 257) + `"}`, "invalid_request"},
		{"PATCH", path, `{}`, "no_updates"},
		{"PATCH", path, `{"other":1}`, "no_updates"},
		{"PATCH", path, `{"status":"enabled","other":1}`, "invalid_request"},
		{"PATCH", path, `{"status":"paused"}`, "invalid_request"},
		{"PATCH", path, `{"status":null}`, "invalid_request"},
		{"PATCH", path, `{"url":null}`, "invalid_request"},
		{"PATCH", path, `{"url":"https://private.test/"}`, "invalid_webhook_url"},
		{"PATCH", path, `{"event_types":["none"]}`, "invalid_request"},
		{"PATCH", path, `{"event_types":null}`, "invalid_request"},
		{"PATCH", path, `{"description":5}`, "invalid_request"},
		{"PATCH", path, `{"description":"` + strings.Repeat("x", 257) + `"}`, "invalid_request"},
		{"PATCH", path, `[]`, "invalid_request"},
		{"POST", path + "/rotate-secret", `{"overlap_hours":73}`, "invalid_request"},
		{"POST", path + "/rotate-secret", `{"overlap_hours":-1}`, "invalid_request"},
		{"POST", path + "/rotate-secret", `{"hours":1}`, "invalid_request"},
		{"POST", path + "/test", `{"a":1}`, "invalid_request"},
		{"POST", path + "/replay", `{}`, "invalid_request"},
		{"POST", path + "/replay", `{"after":"yesterday"}`, "invalid_request"},
		{"POST", path + "/replay", `{"after":"` + page.Cursor("1").Encode("webhooks") + `"}`, "invalid_request"},
		{"POST", path + "/replay", `{"after":"` + cursorAfterEnd + `"}`, "invalid_request"},
		{"GET", "/v1/webhooks?limit=0", "", "invalid_request"},
		{"GET", "/v1/webhooks?limit=101", "", "invalid_request"},
		{"GET", "/v1/webhooks?after=x", "", "invalid_request"},
		{"GET", path + "/deliveries?after=" + page.Cursor(id).Encode("webhooks"), "", "invalid_request"},
		{"GET", path + "/deliveries?status=sent", "", "invalid_request"},
	} {
		client.expect(call{method: tc.method, path: tc.path, body: tc.body, key: env.accountA.key}, http.StatusBadRequest, tc.code)
	}
}

func TestSecretsOfWebhooksAreReplayed(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	create := call{method: http.MethodPost, path: "/v1/webhooks", body: `{"url":"https://a.test/","event_types":["*"]}`, key: env.accountA.key, headers: map[string]string{"Idempotency-Key": "one"}}
	original := client.expect(create, http.StatusOK, "")
	replay := client.expect(create, http.StatusOK, "")
	if original.body["secret"] != replay.body["secret"] || replay.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got %v, then %v, want a replay with the same secret", original.body, replay.body)
	}
	if listed := client.expect(call{method: http.MethodGet, path: "/v1/webhooks", key: env.accountA.key}, http.StatusOK, ""); len(listed.body["webhooks"].([]any)) != 1 {
		t.Errorf("got %v, want one webhook", listed.body)
	}
}
