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

// TestUnreadBodyLosesNoAnswer sends requests whose body the service does not read to its end. The
// client gets the whole answer, and then the service closes the connection. If the service closed
// the connection with unread bytes, the kernel would reset it, and the client could lose the
// answer. A body that arrives completely leaves the connection open.
func TestUnreadBodyLosesNoAnswer(t *testing.T) {
	env := newTestEnv(t)
	env.serveConnectPages()
	handler := env.handler(t)
	for _, tc := range []struct {
		name, path, key, body string
		declared              int  // the Content-Length
		slow                  bool // the read deadline passes before the body is read
		status                int
		staysOpen             bool
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
			begun, sent := make(chan struct{}, 2), make(chan struct{})
			server := httpapi.Server("", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				begun <- struct{}{}
				<-sent
				if tc.slow {
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
			head := "POST " + tc.path + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(tc.declared) + "\r\n"
			if tc.key != "" {
				head += "Authorization: Bearer " + tc.key + "\r\n"
			}
			firstPart, secondPart := head+"\r\n", tc.body // the second part waits in the kernel
			if tc.staysOpen {
				firstPart, secondPart = firstPart+secondPart, "" // read at once, because a slow machine may exceed lingerTime
			}
			write(firstPart)
			receive(t, begun, "the request did not arrive")
			write(secondPart)
			close(sent)
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != tc.status || response.Close == tc.staysOpen {
				t.Fatalf("got %d, close %v, %v, want %d, close %v", response.StatusCode, response.Close, err, tc.status, !tc.staysOpen)
			}
			if tc.staysOpen {
				write("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n")
				if next, err := http.ReadResponse(reader, nil); err != nil || next.StatusCode != http.StatusOK {
					t.Fatalf("the next request on the connection was not answered 200: %v", err)
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
	r := call{method: "DELETE", path: "/v1/tenants/" + string(env.accountA.tenant), key: env.accountA.key}.request(t, client.server.URL).WithContext(ctx)
	go func() {
		if response, err := noRedirects.Do(r); err == nil {
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
		status        int
		code          string
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
			if response.StatusCode != tc.status || !strings.Contains(string(raw), tc.code) || strings.Contains(string(raw), "evil") {
				t.Errorf("got %d %s, want %d %s", response.StatusCode, raw, tc.status, tc.code)
			}
		})
	}
}

func TestBrokenBodyEndsOnlyItsRequest(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	body, bodyWriter := io.Pipe()
	r := call{method: "POST", path: domainsOfA, key: env.accountA.key}.request(t, client.server.URL)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = body, 100
	go func() {
		_, _ = bodyWriter.Write([]byte(`{"domain":`))
		_ = bodyWriter.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if response, err := noRedirects.Do(r); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", response.StatusCode)
		}
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
}

func TestEveryPhaseOfARequestHasATimeout(t *testing.T) {
	s := httpapi.Server(":0", nil)
	if s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != time.Minute || s.ReadTimeout == 0 || s.WriteTimeout <= 110*time.Second {
		t.Errorf("the timeouts are %v %v %v %v, want 5s, 1m, one above 0, and one above 110s", s.ReadHeaderTimeout, s.IdleTimeout, s.ReadTimeout, s.WriteTimeout)
	}
}
