// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// TestUnreadBodyLosesNoAnswer sends requests whose body does not arrive completely. The client gets
// the whole answer, and then the service closes the connection. If the service closed the
// connection with unread bytes, the kernel would reset the connection, and the client could lose
// the answer. After a body that arrives completely, the connection stays open.
func TestUnreadBodyLosesNoAnswer(t *testing.T) {
	env := newTestEnv(t)
	env.serveConnectPages()
	handler := env.handler(t)
	for _, tc := range []struct {
		name, path, key, body string
		contentLength         int
		deadlinePasses        bool // the read deadline passes before the body is read
		wantStatus            int
		wantOpen              bool // the connection stays open
	}{
		{"a slow body", domainsOfA, env.accountA.key, `{"dom`, 1000, true, 400, false},
		{"a slow form", "/connect/microsoft365/confirm", "", "decision=", 1000, true, 400, false},
		{"an incomplete body without a key", domainsOfA, "", `{"dom`, 1000, false, 401, false},
		{"an incomplete body for no route", "/v1/nothing", env.accountA.key, `{"dom`, 1000, false, 404, false},
		{"an incomplete body with a Content-Length that is too large", domainsOfA, env.accountA.key, `{"dom`, 64<<10 + 1, false, 413, false},
		{"a complete body without a key", domainsOfA, "", strings.Repeat("x", 1000), 1000, false, 401, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			arrived, bodySent := make(chan struct{}, 2), make(chan struct{})
			server := httpapi.Server("", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-bodySent
				if tc.deadlinePasses {
					if err := http.NewResponseController(rw).SetReadDeadline(time.Unix(1, 0)); err != nil {
						t.Error(err)
					}
				}
				handler.ServeHTTP(rw, r)
			}))
			server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout = testTimeout, testTimeout, testTimeout
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(func() { _ = server.Close() })
			conn, err := net.Dial("tcp", listener.Addr().String())
			must(t, err)
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(testTimeout))
			write := func(text string) {
				t.Helper()
				if _, err := io.WriteString(conn, text); err != nil {
					t.Fatal(err)
				}
			}
			requestHead := "POST " + tc.path + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(tc.contentLength) + "\r\n"
			if tc.key != "" {
				requestHead += "Authorization: Bearer " + tc.key + "\r\n"
			}
			firstPart, secondPart := requestHead+"\r\n", tc.body // the second part waits in the kernel until the handler reads it
			if tc.wantOpen {
				firstPart, secondPart = firstPart+secondPart, "" // one part, which the server reads at once, so that a slow machine cannot exceed lingerTime
			}
			write(firstPart)
			receive(t, arrived, "the request did not arrive")
			write(secondPart)
			close(bodySent)
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != tc.wantStatus || response.Close == tc.wantOpen {
				t.Fatalf("got %d, close %v, %v, want %d, close %v", response.StatusCode, response.Close, err, tc.wantStatus, !tc.wantOpen)
			}
			if tc.wantOpen {
				write("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n")
				if nextResponse, err := http.ReadResponse(reader, nil); err != nil || nextResponse.StatusCode != http.StatusOK {
					t.Fatalf("the next request on the connection got %v, %v, want 200", nextResponse, err)
				}
				return
			}
			if unexpected, err := io.ReadAll(reader); err != nil || len(unexpected) > 0 {
				t.Fatalf("after the answer the connection has %q, %v, want its end", unexpected, err)
			}
		})
	}
}

func TestWriteContinuesWithoutItsCaller(t *testing.T) {
	env := newTestEnv(t)
	began, disconnected, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	service := *env.options.Tenants
	service.Tenants = tenantDeleter{tenantStore: env.store, delete: func(ctx context.Context) error {
		close(began)
		<-disconnected
		ended <- ctx.Err()
		return ctx.Err()
	}}
	env.options.Tenants = &service
	handler := env.handler(t)
	client := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(disconnected) })
		handler.ServeHTTP(rw, r)
	}))
	ctx, disconnect := context.WithCancel(t.Context())
	deletion := call{method: "DELETE", path: "/v1/tenants/" + string(env.accountA.tenant), key: env.accountA.key}.request(t, client.server.URL).WithContext(ctx)
	go func() {
		if response, err := noRedirects.Do(deletion); err == nil {
			_ = response.Body.Close()
		}
	}()
	receive(t, began, "the write did not begin")
	disconnect()
	if err := receive(t, ended, "the write did not end"); err != nil {
		t.Errorf("the write was cancelled: %v", err)
	}
}

// tenantDeleter is a tenant store whose deletions a test controls.
type tenantDeleter struct {
	tenantStore
	delete func(context.Context) error
}

func (d tenantDeleter) DeleteTenant(ctx context.Context, _ access.AccountID, _ tenant.GUID, _ *ports.StoredAnswer) error {
	return d.delete(ctx)
}

func TestMalformedHTTPIsAnswered(t *testing.T) {
	env := newTestEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := httpapi.Server("", env.handler(t))
	server.ReadHeaderTimeout, server.ReadTimeout = testTimeout, testTimeout
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	headers := "Host: x\r\nAuthorization: Bearer " + env.accountA.key + "\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
	for _, tc := range []struct {
		name, request string
		wantStatus    int
		wantCode      string // "" if net/http itself answers, or for a success
	}{
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, "route_not_found"},
		{"a chunk extension of 5 KiB", "POST " + domainsOfA + " HTTP/1.1\r\n" + headers + "Transfer-Encoding: chunked\r\n\r\n4;" + strings.Repeat("x", 5<<10) + "\r\n{}  \r\n0\r\n\r\n", 400, "invalid_request"},
		{"a body with invalid chunks", "POST " + domainsOfA + " HTTP/1.1\r\n" + headers + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request"},
		{"a different host in the target", "GET http://evil.example/v1/tenants HTTP/1.1\r\n" + headers + "\r\n", 200, ""},
		{"headers above 16 KiB", "GET /v1/tenants HTTP/1.1\r\n" + headers + "X-Long: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", 431, ""},
		{"an unknown transfer encoding", "POST " + domainsOfA + " HTTP/1.1\r\n" + headers + "Transfer-Encoding: zip\r\n\r\n", 501, ""},
		{"an unknown version of HTTP", "GET /v1/tenants HTTP/3.0\r\n" + headers + "\r\n", 505, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			must(t, err)
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(testTimeout))
			if _, err := conn.Write([]byte(tc.request)); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			raw, _ := io.ReadAll(response.Body)
			if response.StatusCode != tc.wantStatus || !strings.Contains(string(raw), tc.wantCode) || strings.Contains(string(raw), "evil") {
				t.Errorf("got %d %s, want %d %s, without the foreign host", response.StatusCode, raw, tc.wantStatus, tc.wantCode)
			}
		})
	}
}

// TestBrokenBodyEndsOnlyItsRequest sends a body that breaks off before its Content-Length. The
// client gets 400, or an error because it cannot send the rest. The server still answers the next
// request.
func TestBrokenBodyEndsOnlyItsRequest(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	bodyReader, bodyWriter := io.Pipe()
	request := call{method: "POST", path: domainsOfA, key: env.accountA.key}.request(t, client.server.URL)
	request.Header.Set("Content-Type", "application/json")
	request.Body, request.ContentLength = bodyReader, 100
	go func() {
		_, _ = bodyWriter.Write([]byte(`{"domain":`))
		_ = bodyWriter.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if response, err := noRedirects.Do(request); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", response.StatusCode)
		}
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
}

func TestEveryPhaseOfARequestHasATimeout(t *testing.T) {
	server := httpapi.Server(":0", nil)
	// The operation sync-tenant may take 110 s.
	if server.ReadHeaderTimeout != 5*time.Second || server.IdleTimeout != time.Minute || server.ReadTimeout == 0 || server.WriteTimeout <= 110*time.Second {
		t.Errorf("the timeouts for the head, idle connections, reading and writing are %v, %v, %v and %v, want 5s, 1m, above 0 and above 110s", server.ReadHeaderTimeout, server.IdleTimeout, server.ReadTimeout, server.WriteTimeout)
	}
}
