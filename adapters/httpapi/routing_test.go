// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/core/domain"
)

func TestUnknownRoutesAndMethods(t *testing.T) {
	w := newWorld(t)
	w.options.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "a page") })
	a := serve(t, w.handler(t))
	for _, tt := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/nowhere", 404, "route_not_found", ""},
		{"GET", "/", 404, "route_not_found", ""},
		{"GET", "/v1", 404, "route_not_found", ""},
		{"GET", "/v1/nowhere", 404, "route_not_found", ""},
		{"GET", "/v1/tenants/", 404, "route_not_found", ""},
		{"GET", "/v1//tenants", 404, "route_not_found", ""},
		{"GET", "//v1/tenants", 404, "route_not_found", ""},
		{"GET", "/v1/../v1/tenants", 404, "route_not_found", ""},
		{"GET", "/v1/./tenants", 404, "route_not_found", ""},
		{"GET", "/v1%2Ftenants", 404, "route_not_found", ""},
		{"GET", "/V1/tenants", 404, "route_not_found", ""},
		{"GET", "/docs/", 404, "route_not_found", ""},
		{"GET", "/docs/errors/nonsense", 404, "route_not_found", ""},
		{"GET", "/docs/assets/nonsense.js", 404, "route_not_found", ""},
		{"GET", "/docs/assets/..%2Fpages.go", 404, "route_not_found", ""},
		{"GET", "/connect", 404, "route_not_found", ""},
		{"PUT", "/v1/tenants", 405, "method_not_allowed", "GET, HEAD"},
		{"OPTIONS", "/v1/tenants", 405, "method_not_allowed", "GET, HEAD"},
		{"POST", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"PATCH", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants/connect%2Durl", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants%2Fconnect-url", 404, "route_not_found", ""},
		{"GET", "/v1/tenants/x/sync", 405, "method_not_allowed", "POST"},
		{"BREW", "/v1/tenants/x", 405, "method_not_allowed", "DELETE, GET, HEAD"},
		{"GET", "/api-key/rotate", 405, "method_not_allowed", "POST"},
		{"POST", "/docs", 405, "method_not_allowed", "GET, HEAD"},
		{"GET", "/v1/tenants/%2e%2e", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/a%2Fb", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/%00", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/%ff", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/{tenant_id}", 404, "tenant_not_found", ""},
		{"GET", domainsOfA + "/%2e%2e/dns", 404, "domain_not_found", ""},
		{"GET", domainsOfA + "/a%00b.example/dns", 404, "domain_not_found", ""},
		{"GET", domainsOfA + "/" + strings.Repeat("a", 3000) + "/dns", 404, "domain_not_found", ""},
		{"GET", "/connect/microsoft365/callback", 200, "", ""},
	} {
		t.Run(tt.method+" "+tt.path[:min(60, len(tt.path))], func(t *testing.T) {
			got := (&api{t: t, server: a.server, check: a.check}).expect(call{method: tt.method, path: tt.path, key: w.a.key}, tt.status, tt.code)
			allow := got.header.Get("Allow")
			if tt.allow != "" && !sameMethods(allow, tt.allow) {
				t.Errorf("Allow is %q, want %q", allow, tt.allow)
			}
		})
	}
}

func sameMethods(a, b string) bool {
	for _, m := range strings.Split(b, ", ") {
		if !strings.Contains(a, m) {
			return false
		}
	}
	return len(a) == len(b)
}

// The first failing check in the documented order determines the answer.
func TestOrderOfChecks(t *testing.T) {
	w := newWorld(t)
	lapsed := w.addOwner(t, "carl@c.example", "cccccccc-0000-4000-8000-000000000003")
	w.lapse(t, lapsed)
	a := serve(t, w.handler(t))
	foreign := "/v1/tenants/" + string(w.b.tenant) + "/domains"
	everything := map[string]string{"Accept": "text/html", "Idempotency-Key": "a b", "Content-Type": "text/plain"}
	big := strings.Repeat("x", 70<<10)

	a.expect(call{method: "PUT", path: "/v1/nowhere", body: big, headers: everything}, 401, "invalid_auth_header")
	a.expect(call{method: "GET", path: "/v1/tenants", headers: map[string]string{"Authorization": "Bearer "}}, 401, "missing_api_key")
	a.expect(call{method: "GET", path: "/v1/tenants", key: "tny_live_short"}, 401, "invalid_api_key")
	a.expect(call{method: "PUT", path: "/v1/nowhere", body: big, key: lapsed.key, headers: everything}, 402, "no_api_plan")
	a.expect(call{method: "PUT", path: "/v1/nowhere", body: big, key: w.a.key, headers: everything}, 404, "route_not_found")
	a.expect(call{method: "PUT", path: foreign, body: big, key: w.a.key, headers: everything}, 405, "method_not_allowed")
	a.expect(call{method: "POST", path: foreign, body: big, key: w.a.key, headers: everything}, 406, "not_acceptable")
	everything["Accept"] = ""
	a.expect(call{method: "POST", path: foreign, body: big, key: w.a.key, headers: everything}, 400, "invalid_idempotency_key")
	everything["Idempotency-Key"] = "k"
	a.expect(call{method: "POST", path: foreign, body: big, key: w.a.key, headers: everything}, 415, "unsupported_media_type")
	everything["Content-Type"] = "application/json"
	a.expect(call{method: "POST", path: foreign, body: big, key: w.a.key, headers: everything}, 413, "request_too_large")
	a.expect(call{method: "POST", path: foreign, body: `{"domain":1}`, key: w.a.key}, 400, "invalid_request")
	a.expect(call{method: "POST", path: foreign, body: `{"domain":"com"}`, key: w.a.key}, 404, "tenant_not_found")
	a.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"com"}`, key: w.a.key}, 400, "invalid_domain")
}

func TestTwoAuthorizationHeaders(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	r := call{method: "GET", path: "/v1/tenants"}.request(t, a.server.URL)
	r.Header["Authorization"] = []string{"Bearer " + w.a.key, "Bearer " + w.a.key}
	if got := a.send(r); got.status != 401 || got.code() != "invalid_auth_header" {
		t.Fatalf("got %d %q", got.status, got.code())
	}
}

// What arrives on the wire below net/http's own checks still gets our answer.
func TestOnTheWire(t *testing.T) {
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.Server("", w.handler(t))
	server.ReadHeaderTimeout, server.ReadTimeout = hang, hang
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	head := "Host: x\r\nAuthorization: Bearer " + w.a.key + "\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
	for _, tt := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, "route_not_found"},
		{"a chunk extension of 5 KiB", "POST " + domainsOfA + " HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n4;" + strings.Repeat("x", 5<<10) + "\r\n{}  \r\n0\r\n\r\n", 400, "invalid_request"},
		{"a body that is not chunked as it says", "POST " + domainsOfA + " HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request"},
		{"another host in the target", "GET http://evil.example/v1/tenants HTTP/1.1\r\n" + head + "\r\n", 200, ""},
		{"a head above 16 KiB", "GET /v1/tenants HTTP/1.1\r\n" + head + "X-Long: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", 431, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(hang))
			if _, err := conn.Write([]byte(tt.request)); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			raw, _ := io.ReadAll(response.Body)
			if response.StatusCode != tt.status || !strings.Contains(string(raw), tt.code) || strings.Contains(string(raw), "evil") {
				t.Errorf("got %d %s", response.StatusCode, raw)
			}
		})
	}
}

// A body that breaks off ends the request, not the server.
func TestABrokenBody(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	body, feed := io.Pipe()
	r := call{method: "POST", path: domainsOfA, key: w.a.key}.request(t, a.server.URL)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = body, 100
	go func() {
		_, _ = feed.Write([]byte(`{"domain":`))
		_ = feed.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if response, err := noRedirects.Do(r); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d", response.StatusCode)
		}
	}
	a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, 200, "")
}

func TestServerLimits(t *testing.T) {
	s := httpapi.Server(":0", nil)
	if s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != time.Minute || s.ReadTimeout == 0 || s.WriteTimeout <= 110*time.Second {
		t.Errorf("timeouts %v %v %v %v", s.ReadHeaderTimeout, s.IdleTimeout, s.ReadTimeout, s.WriteTimeout)
	}
	if domain.MaxPerTenant != 12 {
		t.Errorf("the introduction says 12 domains, core %d", domain.MaxPerTenant)
	}
}
