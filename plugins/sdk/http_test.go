// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// startProvider starts a server on loopback and returns its URL.
func startProvider(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

// fetchAnswer sends a GET request with a client of NewHTTPClient, and reads the body of the answer.
func fetchAnswer(t *testing.T, url string) (*http.Response, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := NewHTTPClient(4 * time.Minute).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

// TestRequestsGoOnlyToNamedHosts sends requests and opens connections during a call of a plugin
// with Description.Hosts.
func TestRequestsGoOnlyToNamedHosts(t *testing.T) {
	var received atomic.Int64
	serverURL := startProvider(t, func(http.ResponseWriter, *http.Request) { received.Add(1) })
	localhostURL := strings.Replace(serverURL, "127.0.0.1", "localhost", 1)
	description := wire.Description{Hosts: []string{"api.acme.com", "{api_url}", "{empty_url}"}}
	ctx := wire.WithHosts(t.Context(), description.HostsOf(wire.Connection{Settings: map[string]string{"api_url": serverURL + "/v1", "other_url": localhostURL}}))
	for url, allowed := range map[string]bool{serverURL: true, localhostURL: false, "http://api.acme.com.evil.test": false} {
		for name, client := range map[string]*http.Client{"NewHTTPClient": NewHTTPClient(4 * time.Minute), "NewGuardedHTTPClient": NewGuardedHTTPClient(4*time.Minute, true)} {
			before := received.Load()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(request)
			if err == nil {
				_ = answer.Body.Close()
			}
			if sent := received.Load() - before; errors.Is(err, ErrHostNotNamed) == allowed || (sent == 1) != allowed {
				t.Errorf("%s to %s: %v after %d received requests, want the request allowed: %t", name, url, err, sent, allowed)
			}
		}
	}
	for address, allowed := range map[string]bool{strings.TrimPrefix(serverURL, "http://"): true, strings.TrimPrefix(localhostURL, "http://"): false} {
		conn, err := NewDialer(4*time.Minute, true).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != allowed || !allowed && !errors.Is(err, ErrHostNotNamed) {
			t.Errorf("NewDialer to %s: %v, want the connection allowed: %t", address, err, allowed)
		}
	}
	if kind := outcome.KindOf(TransportError(ErrHostNotNamed)); kind != outcome.Broken {
		t.Errorf("the outcome of ErrHostNotNamed is %v, want broken", kind)
	}
	if _, _, err := fetchAnswer(t, localhostURL); err != nil {
		t.Errorf("a request outside a call of a plugin: %v, want no error", err)
	}
}

// TestGuardedClientConnectsToHostWithULabels sends a request to a host with U-labels. The request
// passes the check of the host and reaches the resolver.
func TestGuardedClientConnectsToHostWithULabels(t *testing.T) {
	errResolver := errors.New("the resolver was asked")
	dialer := NewDialer(4*time.Minute, false)
	dialer.net.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errResolver }}
	transport := newTransport()
	transport.DialContext = dialer.DialContext
	const url = "https://bücher.example"
	hosts := wire.Description{Hosts: []string{"{url}"}}.HostsOf(wire.Connection{Settings: map[string]string{"url": url}})
	request, err := http.NewRequestWithContext(wire.WithHosts(t.Context(), hosts), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := newHTTPClient(4*time.Minute, transport).Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), errResolver.Error()) {
		t.Errorf("the error is %v, want the error of the resolver", err)
	}
}

func TestAnswersAreLimitedInSize(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		gzip   bool
		length int // bytes that can be read
		err    error
	}{
		{"exactly the limit", MaxAnswer, false, MaxAnswer, nil},
		{"one byte more", MaxAnswer + 1, false, MaxAnswer, ErrAnswerTooLarge},
		{"small when compressed", 50 * MaxAnswer, true, MaxAnswer, ErrAnswerTooLarge},
		{"nothing", 0, false, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := bytes.Repeat([]byte("x"), tc.size)
			url := startProvider(t, func(w http.ResponseWriter, _ *http.Request) {
				if !tc.gzip {
					_, _ = w.Write(body)
					return
				}
				w.Header().Set("Content-Encoding", "gzip")
				compressor := gzip.NewWriter(w)
				_, _ = compressor.Write(body)
				_ = compressor.Close()
			})
			_, got, err := fetchAnswer(t, url)
			if len(got) != tc.length || !errors.Is(err, tc.err) || (tc.err == nil) != (err == nil) {
				t.Fatalf("read %d bytes, %v, want %d bytes, %v", len(got), err, tc.length, tc.err)
			}
		})
	}
}

// TestProtocolSwitchIsABrokenAnswer checks that the client closes the connection after a 101. The
// time limit of the client would not end a read of this connection.
func TestProtocolSwitchIsABrokenAnswer(t *testing.T) {
	readErr := make(chan error, 1)
	url := startProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // reached only if the client does not close the connection
		_, err = conn.Read(make([]byte, 1))
		readErr <- err
	})
	answer, err := NewHTTPClient(4 * time.Minute).Get(url)
	if err == nil {
		_, _ = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		t.Error("the client returned an answer, want an error")
	} else if got := OutcomeOf(TransportError(err)); got != OutcomeOf(BrokenAnswer("status 101")) {
		t.Errorf("the error is %v, want a broken answer", err)
	}
	if err := <-readErr; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stayed open, want the client to close it")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	url := startProvider(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the client followed the redirect")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	if answer, _, err := fetchAnswer(t, url); err != nil || answer.StatusCode != http.StatusFound {
		t.Fatalf("got %v, %v, want 302", answer.Status, err)
	}
}

// TestEnvironmentProxiesAreIgnored runs the request in a separate process, because net/http reads
// the variables once per process.
func TestEnvironmentProxiesAreIgnored(t *testing.T) {
	proxyAsked := false
	proxy := startProvider(t, func(http.ResponseWriter, *http.Request) { proxyAsked = true })
	fetch := pluginCommand(t, "fetch", "http://provider.invalid/")
	fetch.Env = append(fetch.Env, "HTTP_PROXY="+proxy, "http_proxy="+proxy, "NO_PROXY=", "no_proxy=")
	if output, err := fetch.CombinedOutput(); err == nil || proxyAsked {
		t.Fatalf("the request: %v, %s, proxy asked: %v, want a failure without the proxy", err, output, proxyAsked)
	}
}

func TestCallsTimeOut(t *testing.T) {
	release := make(chan struct{})
	url := startProvider(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // runs before the cleanup of startProvider, which waits for the handler
	client := NewHTTPClient(50 * time.Millisecond)
	answer, err := client.Get(url)
	if err == nil {
		_ = answer.Body.Close()
		t.Fatal("the provider does not answer, but the call succeeds, want a timeout")
	}
}

// TestSpansNameNoCustomers checks that a call creates a span and propagates the trace context. The
// span must not contain the path and query, which contain customer data.
func TestSpansNameNoCustomers(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	defer otel.SetTracerProvider(previous)
	var path, traceparent string
	url := startProvider(t, func(_ http.ResponseWriter, r *http.Request) {
		path, traceparent = r.URL.RequestURI(), r.Header.Get("Traceparent")
	})
	if _, _, err := fetchAnswer(t, url+"/v1.0/domains/customer.example?code=hunter2"); err != nil {
		t.Fatal(err)
	}
	if path != "/v1.0/domains/customer.example?code=hunter2" {
		t.Fatalf("the provider was asked for %s, want the whole path and query", path)
	}
	recorded := spans.GetSpans()
	if len(recorded) != 1 || !strings.Contains(traceparent, recorded[0].SpanContext.SpanID().String()) {
		t.Fatalf("%d spans, want one whose id is in the received traceparent %q", len(recorded), traceparent)
	}
	for _, attribute := range recorded[0].Attributes {
		if value := attribute.Value.String(); strings.Contains(value, "customer") || strings.Contains(value, "hunter2") {
			t.Errorf("the attribute %s contains customer data: %s", attribute.Key, value)
		}
	}
	if strings.Contains(recorded[0].Name, "customer") {
		t.Errorf("the span is called %s, want a name without customer data", recorded[0].Name)
	}
}
