// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// rig is the outside world within the test, which so sees every request that
// a plugin makes, and the settings by which servers find it.
type rig struct {
	t        *testing.T
	binary   built
	url      string
	zones    *zones.Store
	settings map[string]string
	platform string // the simulator's folder
	// stop ends the mail platform.
	stop func()
	// given are files and variables beside those of every server.
	given []string

	mu   sync.Mutex
	seen []seen
}

// seen is one request at the simulator with its answer.
type seen struct {
	method, path string
	header       http.Header
	body         []byte
	status       int
	answer       []byte
	location     string
}

func newRig(t *testing.T, b built) *rig {
	t.Helper()
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	if err != nil {
		t.Fatal(err)
	}
	dns, err := zones.Listen(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	r := &rig{t: t, binary: b, zones: store, platform: t.TempDir()}
	var platform http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.record(platform, w, q) }))
	t.Cleanup(server.Close)
	r.url, r.stop = server.URL, func() { server.CloseClientConnections(); server.Close() }
	world := http.NewServeMux()
	world.HandleFunc("GET /dns", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"addr": dns.Addr()})
	})
	worldServer := httptest.NewServer(world)
	t.Cleanup(worldServer.Close)
	handler, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: r.platform, World: worldServer.URL, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	platform = handler
	r.settings = ready.Settings
	secret := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secret, []byte(ready.Secrets["client_secret"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.settings["client_secret_file"] = secret
	r.given = []string{"TENANTRY_DNS_RESOLVERS=" + dns.Addr(), "TENANTRY_DNS_PORT=" + strconv.Itoa(dns.Port()), "TENANTRY_DNS_ALLOW_PRIVATE=true"}
	return r
}

// record passes a request on and writes it down with its answer. Zones are
// part of the control interface, as in the sandbox.
func (r *rig) record(platform http.Handler, w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	if name, ok := strings.CutPrefix(q.URL.Path, "/_control/zones/"); ok {
		r.replaceZone(w, strings.TrimSuffix(name, "/records"), body)
		return
	}
	copied := &copied{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, seen{q.Method, q.URL.Path, q.Header.Clone(), body, copied.status, copied.body.Bytes(), w.Header().Get("Location")})
	}()
	platform.ServeHTTP(copied, q)
}

func (r *rig) replaceZone(w http.ResponseWriter, name string, body []byte) {
	var records []zones.Record
	err := json.Unmarshal(body, &records)
	if err == nil {
		err = r.zones.Replace(name, records)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "{}")
}

type copied struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *copied) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

// requests are what the simulator was asked so far by plugins and browsers.
func (r *rig) requests() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen{}, r.seen...)
}

// env is what a server needs to find the database and the world.
func (r *rig) env(data, database string) []string {
	env := append([]string{
		"TENANTRY_DATA_DIR=" + data, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_DRAIN_DELAY=0s",
	}, r.given...)
	if database != "" {
		env = append(env, "TENANTRY_DATABASE_URL="+database)
	}
	for name, value := range r.settings {
		env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
	}
	return env
}

// command runs one of the operator's commands and gives what it printed.
func (r *rig) command(env []string, args ...string) object {
	r.t.Helper()
	cmd := exec.Command(r.binary.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch}, env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, errs.Bytes())
	}
	var printed object
	if err := json.Unmarshal(out, &printed); err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return printed
}

// account makes an account with a key.
func (r *rig) account(env []string, email, plan string, slots int) (id, key string) {
	r.t.Helper()
	id = r.command(env, "account", "create", "--email", email, "--plan", plan, "--tenant-slots", strconv.Itoa(slots)).text("account_id")
	return id, r.command(env, "key", "create", "--account", id).text("api_key")
}

var servingAt = regexp.MustCompile(`"msg":"serving","api":"([^"]+)","admin":"([^"]+)"`)

// serve starts a server and waits until it serves. The client that it gives
// has no key yet.
func (r *rig) serve(env []string, flags ...string) (*process, client) {
	r.t.Helper()
	p := start(r.t, r.binary, env, io.Discard, append([]string{"serve"}, flags...)...)
	deadline := time.After(hang)
	for {
		if at := servingAt.FindStringSubmatch(p.logs.String()); at != nil {
			return p, client{r.t, sandbox.Ready{APIURL: at[1], AdminURL: at[2], ControlURL: r.url + "/_control"}}
		}
		select {
		case <-p.done:
			r.t.Fatalf("the server ended: %s", p.logs.String())
		case <-deadline:
			r.t.Fatalf("the server does not serve: %s", p.logs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tenant makes a simulated tenant that finishes everything at once.
func (r *rig) tenant(c client) (guid, admin string) {
	r.t.Helper()
	made := c.control("POST", "/tenants", object{})
	c.control("POST", "/tenants/"+made.text("tenant_id")+"/behaviour", quick())
	return made.text("tenant_id"), made.text("admin")
}

// cmdlet is what an Exchange call invokes.
func (s seen) cmdlet() string {
	var in struct {
		CmdletInput struct{ CmdletName string }
	}
	_ = json.Unmarshal(s.body, &in)
	return in.CmdletInput.CmdletName
}
