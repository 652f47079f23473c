// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"

	"github.com/tenantry/tenantry/adapters/telemetry"
)

// TestForwardedAddresses checks that the client address is the peer of the connection, unless a
// trusted proxy names a different one.
func TestForwardedAddresses(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	w := newWorld(t)
	for name, test := range map[string]struct {
		trusted   []netip.Prefix
		forwarded []string
		want      string
	}{
		"off":                       {nil, []string{"198.51.100.7"}, "127.0.0.1"},
		"another proxy is trusted":  {loopback[1:], []string{"198.51.100.7"}, "127.0.0.1"},
		"nothing forwarded":         {loopback, nil, "127.0.0.1"},
		"one proxy":                 {loopback, []string{"198.51.100.7"}, "198.51.100.7"},
		"the client lies":           {loopback, []string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		"the client names a proxy":  {loopback, []string{"10.1.1.1, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":               {loopback, []string{"203.0.113.1, 198.51.100.7, 10.1.2.3"}, "198.51.100.7"},
		"two headers":               {loopback, []string{"203.0.113.1, 198.51.100.7", "10.1.2.3"}, "198.51.100.7"},
		"nobody but proxies":        {loopback, []string{"10.1.2.4,10.1.2.3"}, "10.1.2.4"},
		"no address":                {loopback, []string{"unknown"}, "127.0.0.1"},
		"no address behind a proxy": {loopback, []string{"198.51.100.7, x\", \"a\":\"b, 10.1.2.3"}, "10.1.2.3"},
		"empty":                     {loopback, []string{""}, "127.0.0.1"},
		"IPv6":                      {loopback, []string{"2001:db8::7, fd00::1"}, "2001:db8::7"},
		"IPv4 in IPv6":              {loopback, []string{"198.51.100.7, ::ffff:10.1.2.3"}, "198.51.100.7"},
		"a zone":                    {loopback, []string{"fe80::1%x y"}, "fe80::1"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines bytes.Buffer
			w.options.Log, w.options.TrustedProxies = telemetry.Logger(&lines, slog.LevelInfo), test.trusted
			a := serve(t, w.handler(t))
			r := call{method: "GET", path: "/v1/tenants", key: w.a.key}.request(t, a.server.URL)
			r.Header["X-Forwarded-For"] = test.forwarded
			if got := a.send(r); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.raw)
			}
			a.server.Close()
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line["client"] != test.want {
				t.Errorf("%v: %s is not from %s", err, lines.String(), test.want)
			}
		})
	}
}

// TestForwardedHeadersDecideNothing checks that forwarded headers do not change the host, scheme or
// method of a request.
func TestForwardedHeadersDecideNothing(t *testing.T) {
	w := newWorld(t)
	w.options.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	a := serve(t, w.handler(t))
	plain := call{method: "GET", path: "/v1/tenants/connect-url", key: w.a.key}
	want := a.expect(plain, 200, "")
	for name, value := range map[string]string{
		"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Port": "81", "X-Forwarded-Prefix": "/evil",
		"Forwarded": "for=192.0.2.1;host=evil.example;proto=http", "X-Real-Ip": "192.0.2.1", "X-Original-Url": "/evil",
		"X-Rewrite-Url": "/evil", "X-Http-Method-Override": "DELETE",
	} {
		c := plain
		c.headers = map[string]string{name: value}
		got := a.expect(c, 200, "")
		if host(t, got) != host(t, want) || bytes.Contains([]byte(got.raw), []byte("evil")) {
			t.Errorf("%s has an effect: %s", name, got.raw)
		}
	}
}

// host is where a connect link leads, without what is new in each.
func host(t *testing.T, r reply) string {
	t.Helper()
	q, err := http.NewRequest("GET", r.body["connect_url"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.URL.Host + q.URL.Path + q.URL.Query().Get("redirect_uri")
}
