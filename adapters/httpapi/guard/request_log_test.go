// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/keys"
)

// newHandler returns the middleware around an API without operations.
func newHandler(options guard.Options) http.Handler {
	return guard.New(http.NewServeMux(), &huma.OpenAPI{}, options)
}

// TestClientAddressBehindTrustedProxies checks which address counts as the client. If the peer of
// the connection is a trusted proxy, X-Forwarded-For is read from its end. The client is the first
// address that is not a trusted proxy. If a trusted proxy forwards no valid address, this proxy is
// the client.
func TestClientAddressBehindTrustedProxies(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tc := range map[string]struct {
		trusted    []netip.Prefix
		forwarded  []string // the X-Forwarded-For headers
		wantClient string
	}{
		"no trusted proxy":              {nil, []string{"198.51.100.7"}, "127.0.0.1"},
		"a different proxy is trusted":  {proxies[1:], []string{"198.51.100.7"}, "127.0.0.1"},
		"nothing forwarded":             {proxies, nil, "127.0.0.1"},
		"one proxy":                     {proxies, []string{"198.51.100.7"}, "198.51.100.7"},
		"forged by the client":          {proxies, []string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		"the client names a proxy":      {proxies, []string{"10.1.1.1, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":                   {proxies, []string{"203.0.113.1, 198.51.100.7, 10.1.2.3"}, "198.51.100.7"},
		"two headers":                   {proxies, []string{"203.0.113.1, 198.51.100.7", "10.1.2.3"}, "198.51.100.7"},
		"only proxies":                  {proxies, []string{"10.1.2.4,10.1.2.3"}, "10.1.2.4"},
		"not an address":                {proxies, []string{"unknown"}, "127.0.0.1"},
		"not an address before a proxy": {proxies, []string{"198.51.100.7, x\", \"a\":\"b, 10.1.2.3"}, "10.1.2.3"},
		"empty":                         {proxies, []string{""}, "127.0.0.1"},
		"IPv6":                          {proxies, []string{"2001:db8::7, fd00::1"}, "2001:db8::7"},
		"IPv4 in IPv6":                  {proxies, []string{"198.51.100.7, ::ffff:10.1.2.3"}, "198.51.100.7"},
		"a port":                        {proxies, []string{"203.0.113.1:1, 198.51.100.7:4711, 10.1.2.3:443"}, "198.51.100.7"},
		"IPv6 in brackets":              {proxies, []string{"[2001:db8::7]"}, "2001:db8::7"},
		"a port in IPv6":                {proxies, []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"not a port":                    {proxies, []string{"198.51.100.7:x"}, "127.0.0.1"},
		"a zone":                        {proxies, []string{"fe80::1%x y"}, "fe80::1"},
	} {
		t.Run(name, func(t *testing.T) {
			var requestLog bytes.Buffer
			handler := newHandler(guard.Options{Log: telemetry.NewLogger(&requestLog, slog.LevelInfo), TrustedProxies: tc.trusted})
			request := httptest.NewRequest("GET", "/nowhere", nil)
			request.RemoteAddr, request.Header["X-Forwarded-For"] = "127.0.0.1:50000", tc.forwarded
			handler.ServeHTTP(httptest.NewRecorder(), request)
			var line map[string]any
			if err := json.Unmarshal(requestLog.Bytes(), &line); err != nil || line["client"] != tc.wantClient {
				t.Errorf("the log line is %s, want the client %s (%v)", requestLog.String(), tc.wantClient, err)
			}
		})
	}
}

var validRequestID = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)

// FuzzRequestHeaders sends arbitrary headers. The answer must have the request id of the request if
// that id is valid, and otherwise a new valid id. The status must be 401, except for a request with
// an API key.
func FuzzRequestHeaders(f *testing.F) {
	handler := newHandler(guard.Options{Keys: &keys.Service{Prefix: "tny"}, Log: telemetry.NewLogger(io.Discard, slog.LevelDebug)})
	f.Add("a.B-9_", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "*/*", "Bearer x")
	f.Add("a b", "00-0-0-0", "a/b;q=", "Basic \x00")
	f.Add("x\r\nSet-Cookie: a=b", "\xff", ";;,", "bearer")
	f.Fuzz(func(t *testing.T, requestID, traceparent, accept, authorization string) {
		request := httptest.NewRequest("GET", "/v1/tenants", nil)
		for name, value := range map[string]string{"X-Request-Id": requestID, "Traceparent": traceparent, "Tracestate": traceparent, "Accept": accept, "Authorization": authorization, "X-Forwarded-For": traceparent} {
			request.Header[name] = []string{value}
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		answeredID := recorder.Header().Get("X-Request-Id")
		if isValid := validRequestID.MatchString(requestID); recorder.Code != 401 && !keyFormat.MatchString(authorization) || isValid != (answeredID == requestID) || !validRequestID.MatchString(answeredID) {
			t.Errorf("the request id %q is answered %d with the request id %q, want 401 with the same id: %v", requestID, recorder.Code, answeredID, isValid)
		}
	})
}

// keyFormat matches an API key. FuzzRequestHeaders does not check the status of a request with an
// API key, because its handler has no store of API keys.
var keyFormat = regexp.MustCompile(`tny_(live|trial)_[0-9a-f]{48}`)
