// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

// Message is a signed message to an endpoint.
type Message struct {
	URL string
	// ID is the id of the event, the same in every try. The endpoint uses ID to recognize a message
	// that it has already received.
	ID        string
	Timestamp time.Time // when it is sent
	Signature string    // one or two signatures, separated by a space
	Body      []byte
}

// secretPrefix marks a text as the secret of a webhook.
const secretPrefix = "whsec_"

const secretBytes = 32

// NewSecret returns a new secret in the form that callers see: whsec_ and 32 bytes in base64.
func NewSecret(random io.Reader) (secret.Text, error) {
	key := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, key); err != nil {
		return secret.Text{}, fmt.Errorf("read random bytes: %w", err)
	}
	return secret.New(secretPrefix + base64.StdEncoding.EncodeToString(key)), nil
}

// Sign returns the message with its signatures, one for each secret. It fails for a text that is
// not a secret of a webhook.
func (m Message) Sign(secrets ...secret.Text) (Message, error) {
	signatures := make([]string, 0, len(secrets))
	for _, text := range secrets {
		encoded, hasPrefix := strings.CutPrefix(text.Reveal(), secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !hasPrefix || err != nil {
			return m, errors.New("sign message: the secret has the wrong form")
		}
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", m.ID, m.UnixTime(), m.Body) // a hash never fails
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	m.Signature = strings.Join(signatures, " ")
	return m, nil
}

// UnixTime returns Timestamp in Unix seconds. The signature and the header webhook-timestamp
// contain this text.
func (m Message) UnixTime() string { return strconv.FormatInt(m.Timestamp.Unix(), 10) }

// payload is the body of a message.
type payload struct {
	Type      event.Type `json:"type"`
	Timestamp time.Time  `json:"timestamp"`
	Data      shownEvent `json:"data"`
}

// shownEvent is an event as GET /v1/events shows it.
type shownEvent struct {
	ID       string       `json:"id"`
	Type     event.Type   `json:"type"`
	At       time.Time    `json:"at"`
	TenantID *tenant.GUID `json:"tenant_id"`
	Subject  shownSubject `json:"subject"`
	Version  int64        `json:"version"`
	Data     any          `json:"data"`
}

type shownSubject struct {
	Type event.SubjectType `json:"type"`
	ID   string            `json:"id"`
}

// Body returns the body of the message about an event. The body is the same in every try.
func Body(e event.Event) ([]byte, error) {
	shown := shownEvent{ID: e.ID, Type: e.Type, At: e.At.UTC(), Subject: shownSubject(e.Subject), Version: e.Version, Data: e.Data}
	if e.Tenant != "" {
		shown.TenantID = &e.Tenant
	}
	body, err := json.Marshal(payload{Type: e.Type, Timestamp: shown.At, Data: shown})
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return body, nil
}

// TestEvent returns the event that a test delivery sends.
func TestEvent(d Delivery) event.Event {
	return event.Event{ID: d.EventID, Type: TestType, At: d.CreatedAt, Subject: event.Subject{Type: event.Webhook, ID: d.WebhookID},
		Version: 1, Data: TestData{WebhookID: d.WebhookID}}
}

// TestKind describes the events of TestType.
var TestKind = event.Kind{Type: TestType, Subject: event.Webhook, Data: TestData{}, About: "Sent by a test of the webhook. It is in no log."}

// TestData is the data of the events of TestType.
type TestData struct {
	WebhookID string `json:"webhook_id" format:"uuid" doc:"The webhook's id."`
}
