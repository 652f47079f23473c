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

// newConnectedSender returns a sender that calls serve with the other end of each of its
// connections. serving.Wait waits until all these calls have returned. The sender uses no network,
// so that the fake clock of a test advances while the sender waits.
func newConnectedSender(t *testing.T, serve func(net.Conn)) (s *Sender, serving *sync.WaitGroup) {
	t.Helper()
	s, serving = New(Options{AllowPrivate: true}), &sync.WaitGroup{}
	transport, _ := s.client.Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		serving.Go(func() {
			defer func() { _ = far.Close() }()
			serve(far)
		})
		return near, nil
	}
	return s, serving
}

func readRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func waitForClose(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// TestAnEndpointHas15Seconds checks that a try without an answer fails after exactly 15 seconds,
// wherever the endpoint hangs, and is repeated. An answer before the limit counts, even if its body
// never ends or the endpoint switches protocols.
func TestAnEndpointHas15Seconds(t *testing.T) {
	const limit, accepted = 15 * time.Second, "HTTP/1.1 204 No Content\r\n\r\n"
	const tooLate = "the endpoint did not answer within 15 seconds"
	for name, tc := range map[string]struct {
		url          string
		serve        func(net.Conn)
		wantDuration time.Duration
		status       int    // 0: no answer
		reason       string // "" if the message is delivered
	}{
		"it never reads the request": {"http://127.0.0.1/", func(net.Conn) { time.Sleep(time.Hour) }, limit, 0, tooLate},
		"it never begins TLS":        {"https://127.0.0.1/", waitForClose, limit, 0, tooLate},
		"it never answers":           {"http://127.0.0.1/", func(c net.Conn) { readRequest(c); waitForClose(c) }, limit, 0, tooLate},
		"it sends its answer slowly": {"http://127.0.0.1/", func(c net.Conn) {
			readRequest(c)
			for i := range len(accepted) {
				time.Sleep(time.Second)
				if _, err := io.WriteString(c, accepted[i:i+1]); err != nil {
					return
				}
			}
		}, limit, 0, tooLate},
		"it answers too late": {"http://127.0.0.1/", func(c net.Conn) {
			readRequest(c)
			time.Sleep(limit + time.Millisecond)
			_, _ = io.WriteString(c, accepted)
		}, limit, 0, tooLate},
		"it answers in time": {"http://127.0.0.1/", func(c net.Conn) {
			readRequest(c)
			time.Sleep(limit - time.Millisecond)
			_, _ = io.WriteString(c, accepted)
		}, limit - time.Millisecond, 204, ""},
		"its body never ends": {"http://127.0.0.1/", func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
			waitForClose(c)
		}, limit, 200, ""},
		"it switches protocols": {"http://127.0.0.1/", func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			waitForClose(c)
		}, 0, 101, "the endpoint answered 101"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, serving := newConnectedSender(t, tc.serve)
				defer serving.Wait()
				began := time.Now()
				r := s.Send(t.Context(), webhook.Message{URL: tc.url, Body: []byte("{}")})
				s.client.CloseIdleConnections()
				if duration := time.Since(began); duration != tc.wantDuration || r.Duration != duration || r.StatusCode != tc.status {
					t.Fatalf("after %s: %+v", duration, r)
				}
				d := webhook.Delivery{Status: webhook.Pending}.AfterTry(r, began, 0)
				if tc.reason == "" {
					if d.Status != webhook.Delivered || r.Error != "" {
						t.Errorf("the delivery is %+v after %+v", d, r)
					}
					return
				}
				nextAttemptAt := began.Add(tc.wantDuration + 5*time.Second)
				if d.Status != webhook.Pending || len(d.Attempts) != 1 || d.Attempts[0].Error != tc.reason || !d.NextAttemptAt.Equal(nextAttemptAt) {
					t.Errorf("the delivery is %+v", d)
				}
			})
		})
	}
}

// TestHandshakeEndsWithItsTry checks that the connection of a try is closed if the endpoint never
// begins TLS. The end of the try alone does not close it, because net/http would keep the
// connection for later requests.
func TestHandshakeEndsWithItsTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		s, _ := newConnectedSender(t, func(c net.Conn) {
			waitForClose(c)
			closed.Store(true)
		})
		s.Send(t.Context(), webhook.Message{URL: "https://127.0.0.1/", Body: []byte("{}")})
		time.Sleep(time.Second)
		if !closed.Load() {
			t.Error("the connection is open after the try")
		}
		s.client.CloseIdleConnections()
	})
}
