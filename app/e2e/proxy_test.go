// SPDX-License-Identifier: Apache-2.0

package e2e

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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

const proxyFolder = "../../deploy/proxy/"

// TestNginxForwardsToTheService runs deploy/proxy/nginx.conf in front of the service.
func TestNginxForwardsToTheService(t *testing.T) {
	t.Parallel()
	fixture := newProxyFixture(t)
	fixture.installSnippet("nginx.conf", "server 127.0.0.1:8080;", "server "+strings.TrimPrefix(fixture.server.ready.APIURL, "http://")+";",
		"listen 80;", "listen 127.0.0.1:"+freePort(t)+";", "listen 443 ", "listen 127.0.0.1:"+fixture.port+" ",
		"/etc/ssl/tenantry/", fixture.folder+"/", "/var/log/nginx/", fixture.folder+"/")
	var mainConfig strings.Builder
	fmt.Fprintf(&mainConfig, "daemon off; pid %s/pid; error_log stderr; events {}\nhttp {\naccess_log off;\n", fixture.folder)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&mainConfig, "%s_temp_path %s/%s;\n", kind, fixture.folder, kind)
	}
	fmt.Fprintf(&mainConfig, "include %s/nginx.conf;\n}\n", fixture.folder)
	fixture.write("main.conf", mainConfig.String())
	fixture.start("/usr/sbin/nginx", "-c", filepath.Join(fixture.folder, "main.conf"), "-e", "stderr")
	fixture.checkProxy()
	logged, err := os.ReadFile(filepath.Join(fixture.folder, "tenantry.log"))
	if err != nil || !strings.Contains(string(logged), "/connect/microsoft365/callback") || strings.Contains(string(logged), "state=") {
		t.Errorf("the access log lacks the callback, or contains a state (%v): %s", err, logged)
	}
}

// TestCaddyForwardsToTheService runs deploy/proxy/Caddyfile in front of the service.
func TestCaddyForwardsToTheService(t *testing.T) {
	t.Parallel()
	fixture := newProxyFixture(t)
	fixture.installSnippet("Caddyfile", "127.0.0.1:8080", strings.TrimPrefix(fixture.server.ready.APIURL, "http://"),
		"{\n\tservers", "{\n\tadmin off\n\tauto_https off\n\tservers",
		"\ntenantry.example {\n", fmt.Sprintf("\nhttps://tenantry.example:%s {\n\ttls %[2]s/fullchain.pem %[2]s/key.pem\n", fixture.port, fixture.folder))
	fixture.start("caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(fixture.folder, "Caddyfile"))
	fixture.checkProxy()
}

// checkProxy checks what every proxy must do: it forwards the API, the pages and the address of the
// client, hides the admin endpoints and allows bodies of 64 KiB.
func (f *proxyFixture) checkProxy() {
	f.t.Helper()
	headers := map[string]string{"Authorization": "Bearer " + f.key, "X-Request-ID": "from-the-client", "Idempotency-Key": "k"}
	if got := f.send("GET", "/v1/tenants", "", headers); got.StatusCode != http.StatusOK || got.Header.Get("X-Request-ID") != "from-the-client" {
		f.t.Errorf("a read is answered %d with the headers %v, want 200 and the request id of the client", got.StatusCode, got.Header)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		if got := f.send("GET", path, "", nil); got.StatusCode != http.StatusNotFound {
			f.t.Errorf("%s answers %d, want 404", path, got.StatusCode)
		}
	}
	headers["Content-Type"] = "application/json"
	for size, status := range map[int]int{64 << 10: http.StatusNotFound, 64<<10 + 1: http.StatusRequestEntityTooLarge} {
		body := `{"domain":"a.example"}`
		got := f.send("POST", "/v1/tenants/7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11/domains", body+strings.Repeat(" ", size-len(body)), headers)
		if got.StatusCode != status || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/") {
			f.t.Errorf("a body of %d bytes is answered %d with the type %q, want %d with JSON", size, got.StatusCode, got.Header.Get("Content-Type"), status)
		}
	}
	f.checkClientAddress()
	f.checkConnect(headers)
}

// checkClientAddress checks that the service compares the network of a key with the client address
// that the proxy saw. A header that the client sends has no effect.
func (f *proxyFixture) checkClientAddress() {
	f.t.Helper()
	for network, status := range map[string]int{clientAddress + "/32": http.StatusOK, "192.0.2.0/24": http.StatusUnauthorized, "127.0.0.1/32": http.StatusUnauthorized} {
		key := f.service.runCommand(f.env, "key", "create", "--account", f.account, "--cidr", network).text("api_key")
		got := f.send("GET", "/v1/tenants", "", map[string]string{"Authorization": "Bearer " + key, "X-Forwarded-For": "192.0.2.7"})
		if got.StatusCode != status {
			f.t.Errorf("a request with a key for %s is answered %d, want %d", network, got.StatusCode, status)
		}
	}
}

// checkConnect connects a tenant through the proxy. headers are those of its API requests.
func (f *proxyFixture) checkConnect(headers map[string]string) {
	f.t.Helper()
	guid, admin := f.service.newTenant(f.server)
	link := readReply(f.t, f.send("GET", "/v1/tenants/connect-url", "", headers)).text("connect_url")
	b := newBrowser(f.t)
	callback := b.answerConsent(link, admin, "accept")
	jar := b.client.Jar
	b.client = &http.Client{Jar: jar, CheckRedirect: f.client.CheckRedirect, Transport: byHost{"tenantry.example": f.client.Transport}}
	signIn := b.open(callback)
	if cookies := (&http.Response{Header: signIn.header}).Cookies(); len(cookies) != 1 || cookies[0].Name != "__Host-tenantry-connect" || !cookies[0].Secure {
		f.t.Fatalf("the callback answers %d with the cookies %v, want one secure __Host- cookie", signIn.status, cookies)
	}
	confirmation := b.open(b.signIn(signIn.location, admin).location)
	checkPageHeaders(f.t, confirmation)
	if result := b.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
		f.t.Errorf("the confirmation is answered %d %s, want 200", result.status, result.text)
	}
	if got := f.send("GET", "/v1/tenants/"+guid, "", headers); got.StatusCode != http.StatusOK {
		f.t.Errorf("the connected tenant is answered %d, want 200", got.StatusCode)
	}
}

// clientAddress is the address from which the clients of the proxies connect. The proxies connect
// to the service from 127.0.0.1.
const clientAddress = "127.0.0.9"

// proxyFixture is a server for the public name tenantry.example, and a reverse proxy on loopback in
// front of it. The server trusts the proxy.
type proxyFixture struct {
	t       *testing.T
	service *serviceFixture
	env     []string
	server  client
	account string
	key     string
	folder  string       // has the configuration and the logs of the proxy
	port    string       // the port of the proxy
	client  *http.Client // sends all requests to the proxy
}

// newProxyFixture starts the server and prepares the folder of the proxy. It does not start the
// proxy.
func newProxyFixture(t *testing.T) *proxyFixture {
	t.Helper()
	service := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(service.env(t.TempDir(), ""), "TENANTRY_PUBLIC_URL=https://tenantry.example", "TENANTRY_TRUSTED_PROXIES=127.0.0.1")
	account, key := service.newAccount(env, "ann@example.com", "complete", 0)
	_, server := service.serve(env)
	server.control("POST", "/app", object{"redirect_uris": []string{
		"https://tenantry.example/connect/microsoft365/callback", "https://tenantry.example/connect/microsoft365/signin",
	}})
	fixture := &proxyFixture{t: t, service: service, env: env, server: server, account: account, key: key, port: freePort(t)}
	folder, err := os.MkdirTemp("", "tenantry-proxy-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	fixture.folder = folder
	public, private := testserver.SelfSigned(t)
	fixture.write("fullchain.pem", string(public))
	fixture.write("key.pem", string(private))
	fixture.client = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				from := &net.TCPAddr{IP: net.ParseIP(clientAddress)}
				return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, "127.0.0.1:"+fixture.port)
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return fixture
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(testserver.FreeAddress(t))
	must(t, err)
	return port
}

func (f *proxyFixture) write(name, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o600))
}

// installSnippet copies a file of deploy/proxy into the folder of the proxy. replacements are pairs
// of an old and a new text. Each old text must occur.
func (f *proxyFixture) installSnippet(name string, replacements ...string) {
	f.t.Helper()
	text := fileText(f.t, proxyFolder+name)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			f.t.Fatalf("the file %s does not contain %q", name, replacements[i])
		}
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	f.write(name, text)
}

// start runs the proxy until the test ends, as nobody if the test runs as root.
func (f *proxyFixture) start(args ...string) {
	f.t.Helper()
	log, err := newProcessLog()
	must(f.t, err)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin", "HOME=" + f.folder}
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.folder, log.File, log.File
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = f.giveToNobody()
	}
	must(f.t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for deadline := time.Now().Add(waitTimeout); ; {
		conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", "127.0.0.1:"+f.port)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			f.t.Fatalf("the proxy %s ended: %s", args[0], log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("the proxy %s does not listen: %s", args[0], log)
		}
	}
}

// giveToNobody changes the owner of the folder to the user nobody. It returns the ids of this user.
func (f *proxyFixture) giveToNobody() *syscall.Credential {
	f.t.Helper()
	nobody, err := user.Lookup("nobody")
	must(f.t, err)
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	err = filepath.WalkDir(f.folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, uid, gid)
		}
		return err
	})
	must(f.t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// send sends a request to the public name through the proxy.
func (f *proxyFixture) send(method, path, body string, headers map[string]string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, "https://tenantry.example"+path, strings.NewReader(body))
	must(f.t, err)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := f.client.Do(r)
	must(f.t, err)
	f.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// byHost maps host names to transports. It sends requests to other hosts through the default
// transport.
type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if transport, ok := b[r.URL.Hostname()]; ok {
		return transport.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func readReply(t *testing.T, answer *http.Response) reply {
	t.Helper()
	raw, err := io.ReadAll(answer.Body)
	must(t, err)
	return parseReply(answer, raw)
}
