// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

const proxyFolder = "../../deploy/proxy/"

// TestNginx runs deploy/proxy/nginx.conf before the service.
func TestNginx(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	p.snippet("nginx.conf", "server 127.0.0.1:8080;", "server "+strings.TrimPrefix(p.server.ready.APIURL, "http://")+";",
		"listen 80;", "listen 127.0.0.1:"+freeAddress(t)+";", "listen 443 ", "listen 127.0.0.1:"+p.port+" ",
		"/etc/ssl/tenantry/", p.folder+"/", "/var/log/nginx/", p.folder+"/")
	var own strings.Builder
	fmt.Fprintf(&own, "daemon off; pid %s/pid; error_log stderr; events {}\nhttp {\naccess_log off;\n", p.folder)
	for _, kept := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&own, "%s_temp_path %s/%s;\n", kept, p.folder, kept)
	}
	fmt.Fprintf(&own, "include %s/nginx.conf;\n}\n", p.folder)
	p.write("main.conf", own.String())
	p.start("/usr/sbin/nginx", "-c", filepath.Join(p.folder, "main.conf"), "-e", "stderr")
	p.passes()
	logged, err := os.ReadFile(filepath.Join(p.folder, "tenantry.log"))
	if err != nil || !strings.Contains(string(logged), "/connect/microsoft365/callback") || strings.Contains(string(logged), "state=") {
		t.Errorf("the access log (%v): %s", err, logged)
	}
}

// TestCaddy runs deploy/proxy/Caddyfile before the service.
func TestCaddy(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	p.snippet("Caddyfile", "127.0.0.1:8080", strings.TrimPrefix(p.server.ready.APIURL, "http://"),
		"{\n\tservers", "{\n\tadmin off\n\tauto_https off\n\tservers",
		"\ntenantry.example {\n", fmt.Sprintf("\nhttps://tenantry.example:%s {\n\ttls %[2]s/fullchain.pem %[2]s/key.pem\n", p.port, p.folder))
	p.start("caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(p.folder, "Caddyfile"))
	p.passes()
}

// passes is what every proxy must do.
func (p *proxied) passes() {
	p.t.Helper()
	key := map[string]string{"Authorization": "Bearer " + p.key, "X-Request-ID": "from-the-client", "Idempotency-Key": "k"}
	if got := p.send("GET", "/v1/tenants", "", key); got.StatusCode != http.StatusOK || got.Header.Get("X-Request-ID") != "from-the-client" {
		p.t.Errorf("a read: %d %v", got.StatusCode, got.Header)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		if got := p.send("GET", path, "", nil); got.StatusCode != http.StatusNotFound {
			p.t.Errorf("%s answers %d", path, got.StatusCode)
		}
	}
	key["Content-Type"] = "application/json"
	for size, status := range map[int]int{64 << 10: http.StatusNotFound, 64<<10 + 1: http.StatusRequestEntityTooLarge} {
		body := `{"domain":"a.example"}`
		got := p.send("POST", "/v1/tenants/7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11/domains", body+strings.Repeat(" ", size-len(body)), key)
		if got.StatusCode != status || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/") {
			p.t.Errorf("a body of %d bytes: %d %s", size, got.StatusCode, got.Header.Get("Content-Type"))
		}
	}
	p.connects(key)
}

// connects walks the pages through the proxy, to the last.
func (p *proxied) connects(key map[string]string) {
	p.t.Helper()
	guid, admin := p.rig.tenant(p.server)
	link := parsedBody(p.t, p.send("GET", "/v1/tenants/connect-url", "", key)).text("connect_url")
	v := newVisitor(p.t)
	callback := v.consents(link, admin, "accept")
	jar := v.client.Jar
	v.client = &http.Client{Jar: jar, CheckRedirect: p.client.CheckRedirect, Transport: byHost{"tenantry.example": p.client.Transport}}
	signIn := v.open(callback)
	if cookies := (&http.Response{Header: signIn.header}).Cookies(); len(cookies) != 1 || cookies[0].Name != "__Host-tenantry-connect" || !cookies[0].Secure {
		p.t.Fatalf("%d: cookies %v", signIn.status, cookies)
	}
	offer := v.open(v.signsIn(signIn.location, admin).location)
	guarded(p.t, offer)
	if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
		p.t.Errorf("connect: %d %s", done.status, done.text)
	}
	if got := p.send("GET", "/v1/tenants/"+guid, "", key); got.StatusCode != http.StatusOK {
		p.t.Errorf("after the connect: %d", got.StatusCode)
	}
}

// TestProxyDeadlines: the values of the snippets, and what the page says of
// the service's, are those of the code.
func TestProxyDeadlines(t *testing.T) {
	t.Parallel()
	server := httpapi.Server("", nil)
	nginx, caddy, page := text(t, proxyFolder+"nginx.conf"), text(t, proxyFolder+"Caddyfile"), text(t, proxyFolder+"README.md")
	longest := secondsIn(t, text(t, "../../adapters/httpapi/validation.go"), `syncTime\s+= (\d+) \* time\.Second`)
	if server.WriteTimeout <= longest {
		t.Errorf("the service closes connections after %s, a sync takes %s", server.WriteTimeout, longest)
	}
	for _, waits := range []time.Duration{
		secondsIn(t, nginx, `proxy_read_timeout (\d+)s;`), secondsIn(t, caddy, `response_header_timeout (\d+)s`), secondsIn(t, page, `waits (\d+) s`),
	} {
		if waits <= server.WriteTimeout {
			t.Errorf("a proxy waits %s, the service answers in up to %s", waits, server.WriteTimeout)
		}
	}
	for _, keeps := range []time.Duration{
		secondsIn(t, nginx, `keepalive_timeout (\d+)s;`), secondsIn(t, caddy, `keepalive (\d+)s`), secondsIn(t, page, `reused for (\d+) s`),
	} {
		if keeps >= server.IdleTimeout {
			t.Errorf("a proxy keeps connections for %s, the service for %s", keeps, server.IdleTimeout)
		}
	}
	for _, same := range []struct {
		in, pattern string
		want        time.Duration
	}{
		{nginx, `client_header_timeout (\d+)s;`, server.ReadHeaderTimeout},
		{nginx, `client_body_timeout (\d+)s;`, server.ReadTimeout},
		{caddy, `read_header (\d+)s`, server.ReadHeaderTimeout},
		{caddy, `read_body (\d+)s`, server.ReadTimeout},
		{page, `\| (\d+) s, then a 504`, longest},
		{page, `closed at (\d+) s`, server.WriteTimeout},
		{page, `in flight get (\d+) s`, usualDrain(t)},
		{page, `kept for (\d+) s`, server.IdleTimeout},
	} {
		if got := secondsIn(t, same.in, same.pattern); got != same.want {
			t.Errorf("%s is %s, want %s", same.pattern, got, same.want)
		}
	}
}

// TestProxyLimits: what the service would answer by itself reaches it, and the
// admin listener is nowhere.
func TestProxyLimits(t *testing.T) {
	t.Parallel()
	nginx, caddy := text(t, proxyFolder+"nginx.conf"), text(t, proxyFolder+"Caddyfile")
	if heads := httpapi.Server("", nil).MaxHeaderBytes + 4<<10; heads != 16<<10 || !strings.Contains(nginx, "large_client_header_buffers 4 16k;") {
		t.Errorf("heads of %d bytes", heads)
	}
	if strings.Contains(nginx+caddy, "9090") {
		t.Error("a snippet names the admin listener")
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// secondsIn is the number that the pattern finds, in seconds.
func secondsIn(t *testing.T, text, pattern string) time.Duration {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %q", pattern)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}
