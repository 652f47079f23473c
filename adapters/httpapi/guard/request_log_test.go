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

// TestClientAddressBehindTrustedProxies checks that the client address is the address that a
// trusted proxy forwards. Without a trusted proxy it is the peer of the connection.
func TestClientAddressBehindTrustedProxies(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		forwarded []string
		want      string
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
			var lines bytes.Buffer
			h := newHandler(guard.Options{Log: telemetry.NewLogger(&lines, slog.LevelInfo), TrustedProxies: tc.trusted})
			r := httptest.NewRequest("GET", "/nowhere", nil)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = "127.0.0.1:50000", tc.forwarded
			h.ServeHTTP(httptest.NewRecorder(), r)
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line["client"] != tc.want {
				t.Errorf("the log line %s does not have the client %s: %v", lines.String(), tc.want, err)
			}
		})
	}
}

var validRequestID = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)

// FuzzRequestHeaders sends arbitrary headers. The answer must have the request id of the request if
// that id is valid, and otherwise a new valid id. The status must be 401, except for a request with
// an API key.
func FuzzRequestHeaders(f *testing.F) {
	h := newHandler(guard.Options{Keys: &keys.Service{Prefix: "tny"}, Log: telemetry.NewLogger(io.Discard, slog.LevelDebug)})
	f.Add("a.B-9_", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "*/*", "Bearer x")
	f.Add("a b", "00-0-0-0", "a/b;q=", "Basic \x00")
	f.Add("x\r\nSet-Cookie: a=b", "\xff", ";;,", "bearer")
	f.Fuzz(func(t *testing.T, id, parent, accept, authorization string) {
		r := httptest.NewRequest("GET", "/v1/tenants", nil)
		for name, value := range map[string]string{"X-Request-Id": id, "Traceparent": parent, "Tracestate": parent, "Accept": accept, "Authorization": authorization, "X-Forwarded-For": parent} {
			r.Header[name] = []string{value}
		}
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, r)
		got := recorder.Header().Get("X-Request-Id")
		if valid := validRequestID.MatchString(id); recorder.Code != 401 && !keyFormat.MatchString(authorization) || valid != (got == id) || !validRequestID.MatchString(got) {
			t.Errorf("the request id %q is answered %d with the request id %q", id, recorder.Code, got)
		}
	})
}

// keyFormat matches an API key. A request with an API key needs the store, but the handler of
// FuzzRequestHeaders has no store. The status of the answer is therefore not checked.
var keyFormat = regexp.MustCompile(`tny_(live|trial)_[0-9a-f]{48}`)
