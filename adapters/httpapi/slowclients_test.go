// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// slowClients is the number of slow connections that a test opens.
const slowClients = 200

// TestSlowFormsHoldNoSlot checks that requests are answered while 200 clients have sent only a part
// of the form of a connect page. The process has slots for only four requests.
func TestSlowFormsHoldNoSlot(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits = guard.Limits{Counters: newCounters(t), MaxInFlight: 4}
	env.serveConnectPages()
	handler, reading := env.handler(t), make(chan struct{}, slowClients)
	client := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = readNotifier{r.Body, sync.OnceFunc(func() { reading <- struct{}{} })}
		}
		handler.ServeHTTP(rw, r)
	}))
	answers := make(chan *http.Response, slowClients)
	var formWriters []*io.PipeWriter
	for range slowClients {
		form, writer := io.Pipe()
		formWriters = append(formWriters, writer)
		r := httptest.NewRequest(http.MethodPost, client.server.URL+"/connect/microsoft365/confirm", form)
		r.RequestURI = "" // a client must not set it
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		go func() {
			answer, err := noRedirects.Do(r)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		if _, err := writer.Write([]byte("decision")); err != nil {
			t.Fatal(err)
		}
		receive(t, reading, "the service did not begin to read a form")
	}
	for range 20 { // more requests than slots
		client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
	}
	if page := client.do(call{method: "GET", path: "/docs"}); page.status != http.StatusOK {
		t.Errorf("a page got %d, want 200", page.status)
	}
	for i, form := range formWriters { // one after another, because the connect pages have only one slot
		_, _ = form.Write([]byte("=connect"))
		_ = form.Close()
		answer := receive(t, answers, "a form was not answered")
		page, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusBadRequest || !bytes.Contains(page, []byte("This link does not work any more")) {
			t.Fatalf("form %d got %d %s (%v), want 400 and the page of an invalid link", i, answer.StatusCode, page, err)
		}
	}
}

// pipeListener accepts in-memory connections, whose deadlines follow the clock of a synctest
// bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRequestWithSlowBodyEndsWithItsKey revokes the API key of a request when only a part of the
// request's body has arrived. The request must then create nothing.
func TestRequestWithSlowBodyEndsWithItsKey(t *testing.T) {
	env := newTestEnv(t)
	handler, reading := env.handler(t), make(chan struct{})
	client := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			r.Body = readNotifier{r.Body, sync.OnceFunc(func() { close(reading) })}
		}
		handler.ServeHTTP(rw, r)
	}))
	leakedKey := client.expect(call{method: "POST", path: "/v1/keys", body: `{"name":"leaked","scopes":["keys:write"]}`, key: env.accountA.key}, http.StatusOK, "")
	bodyReader, bodyWriter := io.Pipe()
	slowRequest := httptest.NewRequest(http.MethodPost, client.server.URL+"/v1/keys", bodyReader)
	slowRequest.RequestURI = "" // a client must not set it
	slowRequest.Header = http.Header{"Authorization": {"Bearer " + memberText(leakedKey, "api_key")}, "Content-Type": {"application/json"}, "Idempotency-Key": {"lasting"}, "X-Slow": {"yes"}}
	answers := make(chan *http.Response, 1)
	go func() {
		answer, err := noRedirects.Do(slowRequest)
		if err != nil {
			t.Error(err)
		}
		answers <- answer
	}()
	_, err := io.WriteString(bodyWriter, `{"name":"lasting",`)
	must(t, err)
	receive(t, reading, "the service did not begin to read the body")
	client.expect(call{method: "DELETE", path: "/v1/keys/" + memberText(leakedKey, "id"), key: env.accountA.key}, http.StatusOK, "")
	_, err = io.WriteString(bodyWriter, `"scopes":["keys:write"]}`)
	must(t, err)
	must(t, bodyWriter.Close())
	answer := receive(t, answers, "the request was not answered")
	defer func() { _ = answer.Body.Close() }()
	if listed := client.expect(call{method: "GET", path: "/v1/keys", key: env.accountA.key}, http.StatusOK, ""); answer.StatusCode != http.StatusUnauthorized || strings.Contains(listed.raw, "lasting") {
		t.Errorf("got %d and the keys %s, want 401 and no new key", answer.StatusCode, listed.raw)
	}
}

// TestUnreadAnswersShareTheirContent checks that clients which do not read their answer cost little
// memory. The answer is a large file or document, with and without gzip. The service must close the
// connections of these clients long before its write timeout. A client which reads slowly must get
// its whole answer.
func TestUnreadAnswersShareTheirContent(t *testing.T) {
	const memoryPerClient = 96 << 10 // at most half of an uncompressed answer
	handler := newTestEnv(t).handler(t)
	for _, path := range []string{"/docs/assets/swagger-ui-bundle.js", "/openapi.json", "/openapi.yaml"} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		content := recorder.Body.Bytes()
		if len(content) < 2*memoryPerClient {
			t.Fatalf("%s has %d bytes, want at least %d", path, len(content), 2*memoryPerClient)
		}
		for _, encoding := range []string{"identity", "gzip"} {
			t.Run(path+" "+encoding, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					listener := &pipeListener{make(chan net.Conn), make(chan struct{})}
					server := httpapi.Server("", handler)
					var closedConns atomic.Int32
					server.ConnState = func(_ net.Conn, state http.ConnState) {
						if state == http.StateClosed {
							closedConns.Add(1)
						}
					}
					go func() { _ = server.Serve(listener) }()
					request := "GET " + path + " HTTP/1.1\r\nHost: x\r\nAccept-Encoding: " + encoding + "\r\n\r\n"
					heapBefore := heapInUse()
					var unreadConns []net.Conn
					for range slowClients {
						conn := listener.dial()
						unreadConns = append(unreadConns, conn)
						_, _ = io.WriteString(conn, request)
					}
					synctest.Wait() // each answer now waits for its client
					if memory := int64(heapInUse()) - int64(heapBefore); memory > slowClients*memoryPerClient {
						t.Errorf("%d unread answers take %d bytes, want at most %d", slowClients, memory, slowClients*memoryPerClient)
					}
					time.Sleep(20 * time.Second) // longer than the 15 s that the service waits for a client to read
					synctest.Wait()
					if n := closedConns.Load(); n != slowClients {
						t.Errorf("%d connections were closed, want %d", n, slowClients)
					}
					for _, conn := range unreadConns {
						_ = conn.Close()
					}
					slowConn := listener.dial()
					_, _ = io.WriteString(slowConn, request)
					answer, err := http.ReadResponse(bufio.NewReader(&slowReader{slowConn}), nil)
					must(t, err)
					got, err := io.ReadAll(answer.Body)
					if err != nil || int64(len(got)) != answer.ContentLength {
						t.Errorf("a client that reads slowly got %d of %d bytes: %v", len(got), answer.ContentLength, err)
					}
					_ = slowConn.Close()
					_ = server.Close()
					synctest.Wait()
				})
			})
		}
	}
}

// slowReader reads at most 4 KiB every two seconds.
type slowReader struct{ net.Conn }

func (r *slowReader) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Second)
	return r.Conn.Read(p[:min(len(p), 4<<10)])
}

// discardingWriter is a response writer that discards the answer and counts its bytes.
type discardingWriter struct {
	header http.Header
	size   int
}

func (w *discardingWriter) Header() http.Header              { return w.header }
func (w *discardingWriter) WriteHeader(int)                  {}
func (w *discardingWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *discardingWriter) Write(p []byte) (int, error) {
	w.size += len(p)
	return len(p), nil
}

// TestAFileIsSentThroughOneBuffer checks that sending a large file makes hardly more allocations
// than sending a small file. If each chunk were copied, the garbage collector would slow down all
// other requests.
func TestAFileIsSentThroughOneBuffer(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	allocations := func(file string) (n float64, size int) {
		r := httptest.NewRequest(http.MethodGet, "/docs/assets/"+file, nil)
		n = testing.AllocsPerRun(20, func() {
			w := &discardingWriter{header: http.Header{}}
			handler.ServeHTTP(w, r)
			size = w.size
		})
		return n, size
	}
	smallFileAllocs, _ := allocations("text.css")
	largeFileAllocs, size := allocations("swagger-ui-bundle.js")
	if size < 1<<20 {
		t.Fatalf("the large file has %d bytes, want at least %d", size, 1<<20)
	}
	if largeFileAllocs > smallFileAllocs+20 { // the large file is sent in over 100 chunks
		t.Errorf("a large file takes %.0f allocations, want at most 20 more than the %.0f of a small file", largeFileAllocs, smallFileAllocs)
	}
}

// heldRequests is a page handler and a store of API keys. It holds the requests for the page
// /connect/held and the look-ups of unknownKey until the channel release is closed.
type heldRequests struct {
	ports.Keys

	arrived, release chan struct{}
	sentRequests     sync.WaitGroup // the requests of isRefused
}

// unknownKey has the format of an API key, but no account has it.
var unknownKey = "tny_live_" + strings.Repeat("0", 48)

func (h *heldRequests) hold() {
	h.arrived <- struct{}{}
	<-h.release
}

func (h *heldRequests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/connect/held" {
		h.hold()
	}
	_, _ = io.WriteString(w, "page")
}

func (h *heldRequests) Caller(ctx context.Context, hash [32]byte) (access.Caller, error) {
	if hash == access.HashKey(secret.New(unknownKey)) {
		h.hold()
	}
	return h.Keys.Caller(ctx, hash)
}

// isRefused sends a request and returns when the request is refused or held. It returns false if
// the request is held.
func (h *heldRequests) isRefused(t *testing.T, r *http.Request) bool {
	t.Helper()
	status := make(chan int, 1)
	h.sentRequests.Go(func() {
		answer, err := noRedirects.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = answer.Body.Close()
		status <- answer.StatusCode
	})
	select {
	case <-h.arrived:
		return false
	case got := <-status:
		if got != http.StatusServiceUnavailable {
			t.Errorf("a refused request got %d, want 503", got)
		}
		return true
	case <-time.After(testTimeout):
		t.Fatal("a request was neither held nor refused")
		return false
	}
}

// finish releases the held requests and waits for their answers.
func (h *heldRequests) finish() {
	close(h.release)
	h.sentRequests.Wait()
}

// TestSlotsAreSharedBetweenAddresses checks that one address cannot take all slots of a group. The
// tested groups are the requests for connect pages, and the requests whose API key is not accepted
// yet. Even all addresses together leave slots for the other groups. Addresses of one IPv6 /64 are
// one client. The address that X-Forwarded-For names counts only behind a trusted proxy.
func TestSlotsAreSharedBetweenAddresses(t *testing.T) {
	for _, group := range []struct {
		name              string
		maxInFlight       int  // this gives the group four slots
		request           call // needs a slot of the group
		otherGroupRequest call // needs a slot of a different group
	}{
		{"connect pages", 16, call{method: "GET", path: "/connect/held"}, call{method: "GET", path: "/v1/tenants"}},
		{"keys", 8, call{method: "GET", path: "/v1/tenants", key: unknownKey}, call{method: "GET", path: "/connect/other"}},
	} {
		for _, trusted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, trusted proxy %v", group.name, trusted), func(t *testing.T) {
				env := newTestEnv(t)
				held := &heldRequests{Keys: env.store, arrived: make(chan struct{}), release: make(chan struct{})}
				env.options.Guard.Limits = guard.Limits{Counters: newCounters(t), MaxInFlight: group.maxInFlight}
				env.options.Guard.Pages, env.options.Guard.Keys.Keys = held, held
				if trusted {
					env.options.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
				}
				client := serve(t, env.handler(t))
				client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
				t.Cleanup(held.finish)
				expectOK := func(c call, address string) {
					t.Helper()
					c.headers = map[string]string{"X-Forwarded-For": address}
					if c.path == "/v1/tenants" {
						c.key = env.accountA.key
					}
					if got := client.do(c); got.status != http.StatusOK {
						t.Errorf("a request for %s from %s got %d, want 200", c.path, address, got.status)
					}
				}
				for i, tc := range []struct {
					address     string
					wantRefused bool // behind a trusted proxy
				}{
					{"2001:db8:0:1::1", false},
					{"2001:db8:0:1::2", false},
					{"2001:db8:0:1:ffff::3", true}, // the same /64
					{"2001:db8:0:2::1", false},
					{"192.0.2.1", false},
					{"192.0.2.2", true}, // all slots of the group are taken
				} {
					want := tc.wantRefused
					if !trusted {
						want = i >= 2 // all requests count for the address of the proxy, which gets two slots
					}
					groupRequest := group.request
					groupRequest.headers = map[string]string{"X-Forwarded-For": tc.address}
					if refused := held.isRefused(t, groupRequest.request(t, client.server.URL)); refused != want {
						t.Errorf("request %d from %s: refused is %v, want %v", i, tc.address, refused, want)
					}
					if i == 2 && trusted {
						expectOK(call{method: "GET", path: "/v1/tenants"}, "192.0.2.9") // a new client gets a slot
					}
				}
				for _, address := range []string{"192.0.2.2", "2001:db8:0:1::1"} {
					expectOK(group.otherGroupRequest, address)
					expectOK(call{method: "GET", path: "/v1/tenants"}, address) // the key of this request was accepted before
					expectOK(call{method: "GET", path: "/docs"}, address)
				}
			})
		}
	}
}

// TestAccountsShareTheSlots checks that one account can take only half of the slots.
func TestAccountsShareTheSlots(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits = guard.Limits{Counters: newCounters(t), MaxInFlight: 8, MaxProviderOperations: 100}
	client := serve(t, env.handler(t))
	gate := env.platform.Hold("AddDomain")
	answers := make(chan reply, 4)
	for i := range cap(answers) {
		go func() {
			answers <- client.do(call{method: "POST", path: domainsOfA, key: env.accountA.key, body: fmt.Sprintf(`{"domain":"d%d.example"}`, i)})
		}()
		receive(t, gate.Arrived(), "a write did not reach the platform")
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 503, "service_unavailable")
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountB.key}, 200, "")
	gate.Release()
	for range cap(answers) {
		if got := receive(t, answers, "a write was not answered"); got.status != 200 {
			t.Errorf("a write got %d %s, want 200", got.status, got.raw)
		}
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
}

// TestServerSpeaksHTTP1Only checks that the server negotiates HTTP/1.1 with a client that prefers
// HTTP/2, and refuses a client that supports only HTTP/2.
func TestServerSpeaksHTTP1Only(t *testing.T) {
	certificateSource := httptest.NewTLSServer(nil)
	t.Cleanup(certificateSource.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := httpapi.Server("", http.NotFoundHandler())
	server.TLSConfig = &tls.Config{Certificates: certificateSource.TLS.Certificates}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	for _, tc := range []struct {
		clientProtocols []string
		want            string // "" if the connection is refused
	}{{[]string{"h2"}, ""}, {[]string{"h2", "http/1.1"}, "http/1.1"}} {
		got := ""
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: tc.clientProtocols})
		if err == nil {
			got = conn.ConnectionState().NegotiatedProtocol
			_ = conn.Close()
		}
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("a client with %v negotiated %q (%v), want %q", tc.clientProtocols, got, err, tc.want)
		}
	}
}
