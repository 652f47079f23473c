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

// maxMessageBytes is the size of the largest message body that the receiver accepts.
const maxMessageBytes = 64 << 10

// message is a message that arrived at the receiver.
type message struct {
	header http.Header
	body   []byte
}

// webhook is the webhook of the demo and its receiver.
type webhook struct {
	url, secret string
	arrived     chan message    // received messages that expectEvents has not read
	types       map[string]bool // the types of the events that arrived
}

// maxUnread is how many received messages can wait until expectEvents reads them.
const maxUnread = 1024

// startReceiver starts a server on loopback that receives messages, and returns a function that
// stops it.
func (w *walkthrough) startReceiver(ctx context.Context) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.hook = webhook{url: "http://" + listener.Addr().String() + "/hook", arrived: make(chan message, maxUnread), types: map[string]bool{}}
	receiver := &http.Server{Handler: receiverHandler(w.hook.arrived), ReadHeaderTimeout: 5 * time.Second}
	var serving panics.Group
	serving.Go(func() { _ = receiver.Serve(listener) })
	return func() {
		_ = receiver.Close()
		serving.Wait()
	}, nil
}

// addWebhook adds a webhook for the receiver and tests it.
func (w *walkthrough) addWebhook(ctx context.Context) error {
	w.beginStep("Add a webhook, which receives each event of the account")
	created, err := w.callOK(ctx, http.MethodPost, "/v1/webhooks", object{"url": w.hook.url, "event_types": []string{"*"}})
	if err != nil {
		return err
	}
	w.hook.secret = created.text("secret")
	tested, err := w.callOK(ctx, http.MethodPost, "/v1/webhooks/"+created.text("id")+"/test", nil)
	if err != nil {
		return err
	}
	if tested.text("status") != "delivered" {
		return fmt.Errorf("the test of the webhook failed: %s", tested.text("error"))
	}
	return nil
}

// receiverHandler returns a handler that passes each message to arrived and answers with 204. It
// answers with 400 if it cannot read the message.
func receiverHandler(arrived chan<- message) http.HandlerFunc {
	return func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(answer, r.Body, maxMessageBytes))
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

// expectEvents waits until an event of each of these types has arrived, and prints the types. It
// fails when a message has no valid signature. Events can arrive in any order.
func (w *walkthrough) expectEvents(ctx context.Context, types []string) error {
	for _, expected := range types {
		for !w.hook.types[expected] {
			select {
			case <-ctx.Done():
				return fmt.Errorf("no event %s arrived: %w", expected, ctx.Err())
			case m := <-w.hook.arrived:
				if err := verifySignature(m, w.hook.secret); err != nil {
					return err
				}
				var content object
				if err := json.Unmarshal(m.body, &content); err != nil {
					return fmt.Errorf("read the message of a webhook: %w", err)
				}
				w.hook.types[content.text("type")] = true
			}
		}
	}
	w.printLine("Arrived at the webhook, with a valid signature: %s", strings.Join(types, ", "))
	return nil
}

// verifySignature checks the signature of a message, as Standard Webhooks defines it.
func verifySignature(m message, secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return fmt.Errorf("read the secret of the webhook: %w", err)
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
