// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

// TestProxyTimeoutsMatchTheService compares the timeouts in the configurations of the proxies and
// in README.md with the timeouts in the code.
func TestProxyTimeoutsMatchTheService(t *testing.T) {
	t.Parallel()
	server := httpapi.Server("", nil)
	nginx, caddy, page := fileText(t, "proxy/nginx.conf"), fileText(t, "proxy/Caddyfile"), fileText(t, "proxy/README.md")
	syncTimeLimit := secondsIn(t, fileText(t, "../adapters/httpapi/tenants.go"), `syncTimeLimit\s+= (\d+) \* time\.Second`)
	if server.WriteTimeout <= syncTimeLimit {
		t.Errorf("the service closes connections after %s, want longer than the %s of a sync", server.WriteTimeout, syncTimeLimit)
	}
	for _, wait := range []time.Duration{
		secondsIn(t, nginx, `proxy_read_timeout (\d+)s;`), secondsIn(t, caddy, `response_header_timeout (\d+)s`), secondsIn(t, page, `waits (\d+) s`),
	} {
		if wait <= server.WriteTimeout {
			t.Errorf("a proxy waits %s, want longer than the %s in which the service answers", wait, server.WriteTimeout)
		}
	}
	exportLimit := 60 * secondsIn(t, fileText(t, "../adapters/httpapi/audit.go"), `exportTimeLimit = (\d+) \* time\.Minute`)
	if write := secondsIn(t, caddy, `write (\d+)s`); write <= exportLimit {
		t.Errorf("Caddy ends an answer after %s, want longer than the %s of an export of the audit", write, exportLimit)
	}
	for _, keepalive := range []time.Duration{
		secondsIn(t, nginx, `keepalive_timeout (\d+)s;`), secondsIn(t, caddy, `keepalive (\d+)s`), secondsIn(t, page, `reused for (\d+) s`),
	} {
		if keepalive >= server.IdleTimeout {
			t.Errorf("a proxy keeps idle connections for %s, want shorter than the %s of the service", keepalive, server.IdleTimeout)
		}
	}
	for _, tc := range []struct {
		text, pattern string
		want          time.Duration
	}{
		{nginx, `client_header_timeout (\d+)s;`, server.ReadHeaderTimeout},
		{nginx, `client_body_timeout (\d+)s;`, server.ReadTimeout},
		{caddy, `read_header (\d+)s`, server.ReadHeaderTimeout},
		{caddy, `read_body (\d+)s`, server.ReadTimeout},
		{page, `\| (\d+) s, then a 504`, syncTimeLimit},
		{page, `an export of the audit \| (\d+) s`, exportLimit},
		{page, `closed at (\d+) s`, server.WriteTimeout},
		{page, `a stop of the service \| takes at most (\d+) s`, defaultDrainTime(t)},
		{page, `kept for (\d+) s`, server.IdleTimeout},
	} {
		if got := secondsIn(t, tc.text, tc.pattern); got != tc.want {
			t.Errorf("%s is %s, want %s", tc.pattern, got, tc.want)
		}
	}
}

// TestProxiesPassLargeHeadersAndHideTheAdminListener checks that nginx accepts headers of the size
// that the service accepts, and that no configuration names the port of the admin listener.
func TestProxiesPassLargeHeadersAndHideTheAdminListener(t *testing.T) {
	t.Parallel()
	nginx, caddy := fileText(t, "proxy/nginx.conf"), fileText(t, "proxy/Caddyfile")
	// net/http accepts 4 KiB more than MaxHeaderBytes.
	if headerBytes := httpapi.Server("", nil).MaxHeaderBytes + 4<<10; headerBytes != 16<<10 || !strings.Contains(nginx, "large_client_header_buffers 4 16k;") {
		t.Errorf("the service accepts %d bytes of headers, want 16384, and large_client_header_buffers 4 16k in nginx.conf", headerBytes)
	}
	if strings.Contains(nginx+caddy, "9090") {
		t.Error("a configuration names the port 9090 of the admin listener")
	}
}

// secondsIn returns the number that the pattern captures in the text, as a duration in seconds.
func secondsIn(t *testing.T, text, pattern string) time.Duration {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the text does not match %q", pattern)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}
