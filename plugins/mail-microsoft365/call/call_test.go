// SPDX-License-Identifier: Apache-2.0

package call_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

func startServer(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// send sends a POST request with this effect.
func send(ctx context.Context, effect call.Effect, address string) (call.Response, error) {
	return call.Send(ctx, call.NewHTTPClient(), call.Request{
		Effect: effect, Method: http.MethodPost, URL: address, Route: "/thing/{id}", Body: []byte("{}"),
	})
}

func expectKind(t *testing.T, err error, want outcome.Kind) {
	t.Helper()
	if got := outcome.KindOf(err); got != want {
		t.Fatalf("got the kind %s (%v), want %s", got, err, want)
	}
}

func TestEachRequestHasItsOwnID(t *testing.T) {
	requestIDs := map[string]bool{}
	address := startServer(t, func(_ http.ResponseWriter, r *http.Request) { requestIDs[r.Header.Get("client-request-id")] = true })
	for range 2 {
		if _, err := send(t.Context(), call.Read, address); err != nil {
			t.Fatal(err)
		}
	}
	if len(requestIDs) != 2 || requestIDs[""] {
		t.Fatalf("the request ids are %v, want two that are not empty", requestIDs)
	}
}

// lateContext is a context whose deadline passes when the channel deadline is closed.
type lateContext struct {
	context.Context
	deadline chan struct{}
}

func (c lateContext) Done() <-chan struct{} { return c.deadline }

func (c lateContext) Err() error {
	select {
	case <-c.deadline:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestLostResponsesBecomeOutcomes covers servers that cannot be reached, that close the connection
// without an answer, and that do not answer before the deadline.
func TestLostResponsesBecomeOutcomes(t *testing.T) {
	closingServer := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	arrived, release := make(chan struct{}), make(chan struct{})
	silentServer := startServer(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unreachableServer := "http://" + listener.Addr().String()
	_ = listener.Close()
	for name, tc := range map[string]struct {
		address string
		effect  call.Effect
		want    outcome.Kind
	}{
		"unreachable, read":         {unreachableServer, call.Read, outcome.Down},
		"unreachable, create":       {unreachableServer, call.Create, outcome.Down},
		"connection closed, read":   {closingServer, call.Read, outcome.Down},
		"connection closed, write":  {closingServer, call.Repeatable, outcome.Unknown},
		"connection closed, create": {closingServer, call.Create, outcome.Unknown},
		"too slow, read":            {silentServer, call.Read, outcome.Unknown},
		"too slow, create":          {silentServer, call.Create, outcome.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := lateContext{t.Context(), make(chan struct{})}
			if tc.address == silentServer {
				go func() {
					<-arrived
					close(ctx.deadline)
				}()
			}
			_, err := send(ctx, tc.effect, tc.address)
			expectKind(t, err, tc.want)
		})
	}
}

// TestProtocolSwitchIsABrokenAnswer checks that Send closes the connection after a 101. The timeout
// of the HTTP client does not end a read from such a connection.
func TestProtocolSwitchIsABrokenAnswer(t *testing.T) {
	readErr := make(chan error, 1)
	address := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // much longer than Send needs on a slow machine
		_, err = conn.Read(make([]byte, 1))
		readErr <- err
	})
	_, err := send(t.Context(), call.Create, address)
	expectKind(t, err, outcome.Broken)
	if err := <-readErr; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stayed open for a minute, want it closed")
	}
}

func TestACancelledCallReturnsItsCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := send(ctx, call.Create, "http://127.0.0.1:1")
	if !errors.Is(err, context.Canceled) || outcome.KindOf(err) != 0 {
		t.Fatalf("got %v, want context.Canceled without an outcome", err)
	}
}

func TestAResponseThatIsTooLargeIsRejected(t *testing.T) {
	address := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 20 { // 20 MiB are more than Send accepts
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := send(t.Context(), call.Read, address)
	expectKind(t, err, outcome.Broken)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	address := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/away", http.StatusTemporaryRedirect)
	})
	resp, err := send(t.Context(), call.Read, address)
	if err != nil || resp.Status != http.StatusTemporaryRedirect {
		t.Fatalf("got %d, %v, want 307", resp.Status, err)
	}
}

func TestSpansNameTheRouteAndNotTheCustomer(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	var traceparent string
	address := startServer(t, func(_ http.ResponseWriter, r *http.Request) { traceparent = r.Header.Get("traceparent") })
	if _, err := send(t.Context(), call.Read, address+"/thing/customer.example?x=customer"); err != nil {
		t.Fatal(err)
	}
	spans := recorder.Ended()
	if len(spans) != 1 || spans[0].Name() != "POST /thing/{id}" || !strings.Contains(traceparent, spans[0].SpanContext().SpanID().String()) {
		t.Fatalf("got the spans %v and sent the traceparent %q, want one span with the route and its id in traceparent", spans, traceparent)
	}
	for _, attribute := range spans[0].Attributes() {
		if strings.Contains(attribute.Value.String(), "customer") {
			t.Fatalf("the attribute %s is %s, want it not to name the customer", attribute.Key, attribute.Value.String())
		}
	}
}
