// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
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
	public, private := testserver.SelfSigned(t)
	p.write("fullchain.pem", string(public))
	p.write("key.pem", string(private))
	p.client = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+p.port)
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}},
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
	for deadline := time.Now().Add(hang); ; {
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
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
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

// byHost sends requests to some hosts another way.
type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if way, ok := b[r.URL.Hostname()]; ok {
		return way.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func parsedBody(t *testing.T, answer *http.Response) reply {
	t.Helper()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(answer, raw)
}
