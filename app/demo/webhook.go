// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/panics"
)

// maxMessage is how much of a message the receiver reads.
const maxMessage = 64 << 10

// message is a message that arrived at the receiver.
type message struct {
	header http.Header
	body   []byte
}

// receiveWebhooks starts a receiver on this machine and adds a webhook for it. It shows a test event
// and a logged event that arrive, and checks their signatures.
func (w *walkthrough) receiveWebhooks(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	arrived := make(chan message, 16)
	receiver := &http.Server{Handler: receive(arrived), ReadHeaderTimeout: 5 * time.Second}
	var serving panics.Group
	serving.Go(func() { _ = receiver.Serve(listener) })
	defer func() {
		_ = receiver.Close()
		serving.Wait()
	}()
	w.title("Receive events at a webhook")
	url := "http://" + listener.Addr().String() + "/hook"
	created, err := w.callOK(ctx, http.MethodPost, "/v1/webhooks", object{"url": url, "event_types": []string{"*"}})
	if err != nil {
		return err
	}
	tested, err := w.callOK(ctx, http.MethodPost, "/v1/webhooks/"+created.text("id")+"/test", nil)
	if err != nil {
		return err
	}
	if tested.text("status") != "delivered" {
		return fmt.Errorf("the test of the webhook failed: %s", tested.text("error"))
	}
	if err := w.expectEvent(ctx, arrived, "webhook.test", created.text("secret")); err != nil {
		return err
	}
	w.note("A second webhook is disabled, which is an event. The first one gets it from a background job:")
	other, err := w.callOK(ctx, http.MethodPost, "/v1/webhooks", object{"url": url, "event_types": []string{"key.revoked"}})
	if err != nil {
		return err
	}
	if _, err := w.callOK(ctx, http.MethodPatch, "/v1/webhooks/"+other.text("id"), object{"status": "disabled"}); err != nil {
		return err
	}
	return w.expectEvent(ctx, arrived, "webhook.disabled", created.text("secret"))
}

// receive returns a handler that passes on each message and accepts it.
func receive(arrived chan<- message) http.HandlerFunc {
	return func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(answer, r.Body, maxMessage))
		if err != nil {
			answer.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case arrived <- message{r.Header, body}:
		case <-r.Context().Done():
		}
		answer.WriteHeader(http.StatusNoContent)
	}
}

// expectEvent waits for an event of a type and prints it. It fails when a message has no valid
// signature. Events of other types can arrive before.
func (w *walkthrough) expectEvent(ctx context.Context, arrived <-chan message, kind, secret string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no event %s arrived: %w", kind, ctx.Err())
		case m := <-arrived:
			if err := verify(m, secret); err != nil {
				return err
			}
			var content object
			if err := json.Unmarshal(m.body, &content); err != nil {
				return fmt.Errorf("read the message: %w", err)
			}
			if content.text("type") == kind {
				w.note("arrived: %s, webhook-id %s, the signature is valid", kind, m.header.Get("webhook-id"))
				return nil
			}
		}
	}
}

// verify checks the signature of a message, as Standard Webhooks defines it.
func verify(m message, secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return fmt.Errorf("read the secret: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(m.header.Get("webhook-id") + "." + m.header.Get("webhook-timestamp") + "."))
	mac.Write(m.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(want), []byte(m.header.Get("webhook-signature"))) {
		return errors.New("the signature of a message is not valid")
	}
	return nil
}
