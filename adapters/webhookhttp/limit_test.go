// SPDX-License-Identifier: Apache-2.0

package webhookhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
)

// newConnectedSender returns a sender whose connections are pipes. For each connection it calls
// serve with the endpoint's side of the pipe. serving.Wait waits until all these calls have
// returned. Without a network, the fake clock of a test advances while the sender waits.
func newConnectedSender(t *testing.T, serve func(net.Conn)) (sender *Sender, serving *sync.WaitGroup) {
	t.Helper()
	sender, serving = New(Options{AllowPrivate: true}), &sync.WaitGroup{}
	transport, _ := sender.client.Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		senderSide, endpointSide := net.Pipe()
		serving.Go(func() {
			defer func() { _ = endpointSide.Close() }()
			serve(endpointSide)
		})
		return senderSide, nil
	}
	return sender, serving
}

func readRequest(conn net.Conn) {
	if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

func waitForClose(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestAnEndpointHas15Seconds checks that a try without an answer fails after exactly 15 seconds,
// wherever the endpoint hangs, and that a further try is due later. The status of an answer before
// the limit counts, even if the body of the answer never ends. A switch of protocols is a failure.
func TestAnEndpointHas15Seconds(t *testing.T) {
	const limit, accepted = 15 * time.Second, "HTTP/1.1 204 No Content\r\n\r\n"
	const tooLate = "the endpoint did not answer within 15 seconds"
	for name, tc := range map[string]struct {
		url          string
		serve        func(net.Conn)
		wantDuration time.Duration
		wantStatus   int    // 0: no answer
		wantReason   string // "" if the message is delivered
	}{
		"it never reads the request": {"http://127.0.0.1/", func(net.Conn) { time.Sleep(time.Hour) }, limit, 0, tooLate},
		"it never begins TLS":        {"https://127.0.0.1/", waitForClose, limit, 0, tooLate},
		"it never answers":           {"http://127.0.0.1/", func(conn net.Conn) { readRequest(conn); waitForClose(conn) }, limit, 0, tooLate},
		"it sends its answer slowly": {"http://127.0.0.1/", func(conn net.Conn) {
			readRequest(conn)
			for i := range len(accepted) {
				time.Sleep(time.Second)
				if _, err := io.WriteString(conn, accepted[i:i+1]); err != nil {
					return
				}
			}
		}, limit, 0, tooLate},
		"it answers too late": {"http://127.0.0.1/", func(conn net.Conn) {
			readRequest(conn)
			time.Sleep(limit + time.Millisecond)
			_, _ = io.WriteString(conn, accepted)
		}, limit, 0, tooLate},
		"it answers in time": {"http://127.0.0.1/", func(conn net.Conn) {
			readRequest(conn)
			time.Sleep(limit - time.Millisecond)
			_, _ = io.WriteString(conn, accepted)
		}, limit - time.Millisecond, 204, ""},
		"its body never ends": {"http://127.0.0.1/", func(conn net.Conn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
			waitForClose(conn)
		}, limit, 200, ""},
		"it switches protocols": {"http://127.0.0.1/", func(conn net.Conn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			waitForClose(conn)
		}, 0, 101, "the endpoint answered 101"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sender, serving := newConnectedSender(t, tc.serve)
				defer serving.Wait()
				began := time.Now()
				result := sender.Send(t.Context(), webhook.Message{URL: tc.url, Body: []byte("{}")})
				sender.client.CloseIdleConnections()
				if duration := time.Since(began); duration != tc.wantDuration || result.Duration != duration || result.StatusCode != tc.wantStatus {
					t.Fatalf("after %s: %+v, want the status %d after %s", duration, result, tc.wantStatus, tc.wantDuration)
				}
				delivery := webhook.Delivery{Status: webhook.Pending}.AfterTry(result, began, 0)
				if tc.wantReason == "" {
					if delivery.Status != webhook.Delivered || result.Error != "" {
						t.Errorf("the delivery is %+v after %+v, want it delivered without an error", delivery, result)
					}
					return
				}
				nextAttemptAt := began.Add(tc.wantDuration + 5*time.Second) // 5 s is the delay before the second attempt
				if delivery.Status != webhook.Pending || len(delivery.Attempts) != 1 || delivery.Attempts[0].Error != tc.wantReason || !delivery.NextAttemptAt.Equal(nextAttemptAt) {
					t.Errorf("the delivery is %+v, want one failed attempt with the error %q and the next one at %s", delivery, tc.wantReason, nextAttemptAt)
				}
			})
		})
	}
}

// TestHandshakeEndsWithItsTry checks that the connection of a try is closed after the try if the
// endpoint never begins TLS. Without a limit of the handshake, net/http would continue the
// handshake, because later requests could use the connection.
func TestHandshakeEndsWithItsTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		sender, _ := newConnectedSender(t, func(conn net.Conn) {
			waitForClose(conn)
			closed.Store(true)
		})
		sender.Send(t.Context(), webhook.Message{URL: "https://127.0.0.1/", Body: []byte("{}")})
		time.Sleep(time.Second) // until waitForClose has returned
		if !closed.Load() {
			t.Error("the connection is open after the try")
		}
		sender.client.CloseIdleConnections()
	})
}
