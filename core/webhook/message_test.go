// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
)

// TestSignaturesMatchStandardWebhooks checks the example in the specification of Standard Webhooks,
// new secrets, and signatures with two secrets.
func TestSignaturesMatchStandardWebhooks(t *testing.T) {
	message := webhook.Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Timestamp: time.Unix(1614265330, 0), Body: []byte(`{"test": 2432232314}`)}
	exampleSecret := secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	signed, err := message.Sign(exampleSecret)
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || signed.Signature != want {
		t.Errorf("got the signature %q, %v; want %q", signed.Signature, err, want)
	}
	newSecret, err := webhook.NewSecret(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	encoded, hasPrefix := strings.CutPrefix(newSecret.Reveal(), "whsec_")
	if key, err := base64.StdEncoding.DecodeString(encoded); !hasPrefix || err != nil || len(key) != 32 {
		t.Errorf("the new secret has %d bytes, %v; want whsec_ and 32 bytes in base64", len(key), err)
	}
	signedWithBoth, err := message.Sign(newSecret, exampleSecret)
	if signatures := strings.Fields(signedWithBoth.Signature); err != nil || len(signatures) != 2 || signatures[1] != signed.Signature || signatures[0] == signatures[1] {
		t.Errorf("with two secrets: got %q, %v; want two different signatures", signedWithBoth.Signature, err)
	}
	if _, err := message.Sign(secret.New("secret")); err == nil || strings.Contains(err.Error(), "secret\"") {
		t.Errorf("a secret of the wrong form: got %v, want an error without the secret", err)
	}
	if _, err := webhook.NewSecret(strings.NewReader("short")); err == nil {
		t.Error("NewSecret returns a secret from fewer than 32 random bytes")
	}
}

func TestBodiesHaveThePublishedMembers(t *testing.T) {
	domainAdded := event.Event{ID: "id", Sequence: 7, Type: event.DomainAdded, At: now, Account: "account", Tenant: "tenant", Version: 3,
		Subject: event.Subject{Type: event.Domain, ID: "d"}, Data: json.RawMessage(`{"domain":"example.com"}`)}
	body, err := webhook.Body(domainAdded)
	want := `{"type":"domain.added","timestamp":"2026-01-02T03:04:05Z","data":{"id":"id","type":"domain.added","at":"2026-01-02T03:04:05Z",` +
		`"tenant_id":"tenant","subject":{"type":"domain","id":"d"},"version":3,"data":{"domain":"example.com"}}}`
	if err != nil || string(body) != want {
		t.Errorf("got %s, %v\nwant %s", body, err, want)
	}
	testBody, err := webhook.Body(webhook.TestEvent(webhook.Delivery{EventID: "e", WebhookID: "w", CreatedAt: now}))
	want = `{"type":"webhook.test","timestamp":"2026-01-02T03:04:05Z","data":{"id":"e","type":"webhook.test","at":"2026-01-02T03:04:05Z",` +
		`"tenant_id":null,"subject":{"type":"webhook","id":"w"},"version":1,"data":{"webhook_id":"w"}}}`
	if err != nil || string(testBody) != want {
		t.Errorf("got %s, %v\nwant %s", testBody, err, want)
	}
}
