// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

const proxyFolder = "../../deploy/proxy/"

// proxied is a server for the public name tenantry.example, and a proxy on
// loopback before it.
type proxied struct {
	t      *testing.T
	rig    *rig
	server client
	key    string
	folder string
	port   string
	client *http.Client
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	r := newRig(t, binary(t, release))
	env := append(r.env(t.TempDir(), ""), "TENANTRY_PUBLIC_URL=https://tenantry.example")
	_, key := r.account(env, "ann@example.com", "complete", 0)
	_, server := r.serve(env)
	server.control("POST", "/app", object{"redirect_uris": []string{
		"https://tenantry.example/connect/microsoft365/callback", "https://tenantry.example/connect/microsoft365/signin",
	}})
	p := &proxied{t: t, rig: r, server: server, key: key, port: freeAddress(t)}
	folder, err := os.MkdirTemp("", "tenantry-proxy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	p.folder = folder
	public, private := selfSigned(t)
	p.write("fullchain.pem", string(public))
	p.write("key.pem", string(private))
	p.client = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+p.port)
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // the test's own certificate names nobody
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

func freeAddress(t *testing.T) (port string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (p *proxied) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// snippet is a file of the folder with the test's addresses and paths in the
// place of those of a real machine. Each must be there.
func (p *proxied) snippet(name string, instead ...string) {
	p.t.Helper()
	raw, err := os.ReadFile(proxyFolder + name)
	if err != nil {
		p.t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(instead); i += 2 {
		if !strings.Contains(text, instead[i]) {
			p.t.Fatalf("%s does not say %q", name, instead[i])
		}
		text = strings.ReplaceAll(text, instead[i], instead[i+1])
	}
	p.write(name, text)
}

// start runs the proxy as nobody, until the test's end.
func (p *proxied) start(args ...string) {
	p.t.Helper()
	log := &safeBuffer{}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin", "HOME=" + p.folder}
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = p.give()
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", "127.0.0.1:"+p.port)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			p.t.Fatalf("%s ended: %s", args[0], log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not listen: %s", args[0], log)
		}
	}
}

// give makes the folder the property of nobody.
func (p *proxied) give() *syscall.Credential {
	p.t.Helper()
	nobody, err := user.Lookup("nobody")
	if err != nil {
		p.t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	err = filepath.WalkDir(p.folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, uid, gid)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids are small
}

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

func (p *proxied) send(method, path, body string, headers map[string]string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "https://tenantry.example"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
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

// byHost sends requests to some hosts another way.
type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if way, ok := b[r.URL.Hostname()]; ok {
		return way.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestProxyDeadlines: the values of the snippets, and what the page says of
// the service's, are those of the code.
func TestProxyDeadlines(t *testing.T) {
	t.Parallel()
	server := httpapi.Server("", nil)
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	seconds := func(text, pattern string) time.Duration {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %q", pattern)
		}
		n, _ := strconv.Atoi(found[1])
		return time.Duration(n) * time.Second
	}
	longest := seconds(read("../../adapters/httpapi/strict.go"), `syncTime\s+= (\d+) \* time\.Second`)
	nginx, caddy, page := read(proxyFolder+"nginx.conf"), read(proxyFolder+"Caddyfile"), read(proxyFolder+"README.md")
	for name, waits := range map[string]time.Duration{
		"nginx": seconds(nginx, `proxy_read_timeout (\d+)s;`), "Caddy": seconds(caddy, `response_header_timeout (\d+)s`), "the page": seconds(page, `waits (\d+) s`),
	} {
		if waits <= server.WriteTimeout || server.WriteTimeout <= longest {
			t.Errorf("%s waits %s, the service %s for %s", name, waits, server.WriteTimeout, longest)
		}
	}
	for name, keeps := range map[string]time.Duration{
		"nginx": seconds(nginx, `keepalive_timeout (\d+)s;`), "Caddy": seconds(caddy, `keepalive (\d+)s`), "the page": seconds(page, `reused for (\d+) s`),
	} {
		if keeps >= server.IdleTimeout {
			t.Errorf("%s keeps connections for %s, the service for %s", name, keeps, server.IdleTimeout)
		}
	}
	for name, got := range map[string]time.Duration{
		"nginx, head": seconds(nginx, `client_header_timeout (\d+)s;`) - server.ReadHeaderTimeout, "nginx, body": seconds(nginx, `client_body_timeout (\d+)s;`) - server.ReadTimeout,
		"Caddy, head": seconds(caddy, `read_header (\d+)s`) - server.ReadHeaderTimeout, "Caddy, body": seconds(caddy, `read_body (\d+)s`) - server.ReadTimeout,
		"the longest operation": seconds(page, `\| (\d+) s, then a 504`) - longest, "the connection": seconds(page, `closed at (\d+) s`) - server.WriteTimeout,
		"the drain": seconds(page, `in flight get (\d+) s`) - usualDrain(t), "idle": seconds(page, `kept for (\d+) s`) - server.IdleTimeout,
	} {
		if got != 0 {
			t.Errorf("%s is off by %s", name, got)
		}
	}
	if !strings.Contains(nginx, "large_client_header_buffers 4 16k;") || server.MaxHeaderBytes+4<<10 != 16<<10 {
		t.Errorf("heads of %d bytes", server.MaxHeaderBytes+4<<10)
	}
	if strings.Contains(nginx+caddy, "9090") {
		t.Error("a snippet names the admin listener")
	}
}

func parsedBody(t *testing.T, answer *http.Response) reply {
	t.Helper()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(answer, raw)
}
