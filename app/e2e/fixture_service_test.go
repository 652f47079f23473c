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
	"slices"
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

// mailPlatform is the name of the mail platform's plugin.
const mailPlatform = "microsoft365"

// serviceFixture runs the simulated mail platform and DNS inside the test, and has the settings
// with which a server finds them. It records every request that a plugin sends to the mail
// platform.
type serviceFixture struct {
	t           *testing.T
	binary      programs
	url         string
	zones       *zones.Store
	settings    map[string]string
	platformDir string // the data folder of the platform's simulator
	// stopPlatform stops the mail platform.
	stopPlatform func()
	// extraEnv are environment variables that every server of the fixture gets.
	extraEnv []string

	mu               sync.Mutex
	platformRequests []platformRequest
}

// platformRequest is one request to the simulated mail platform with its response.
type platformRequest struct {
	method, path string
	header       http.Header
	body         []byte
	status       int
	answer       []byte
	location     string
}

func newServiceFixture(t *testing.T, b programs) *serviceFixture {
	t.Helper()
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	must(t, err)
	dns, err := zones.Listen(t.Context(), store)
	must(t, err)
	t.Cleanup(func() { _ = dns.Close() })
	r := &serviceFixture{t: t, binary: b, zones: store, platformDir: t.TempDir()}
	var platform http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.serveAndRecord(platform, w, q) }))
	t.Cleanup(server.Close)
	r.url, r.stopPlatform = server.URL, func() { server.CloseClientConnections(); server.Close() }
	dnsLocator := http.NewServeMux()
	dnsLocator.HandleFunc("GET /dns", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"addr": dns.Addr()})
	})
	dnsLocatorServer := httptest.NewServer(dnsLocator)
	t.Cleanup(dnsLocatorServer.Close)
	must(t, shareSigningKey(r.platformDir))
	handler, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: r.platformDir, World: dnsLocatorServer.URL, Log: io.Discard})
	must(t, err)
	platform = handler
	r.settings = ready.Settings
	secret := filepath.Join(t.TempDir(), "client-secret")
	must(t, os.WriteFile(secret, []byte(ready.Secrets["client_secret"]+"\n"), 0o600))
	r.settings["client_secret_file"] = secret
	r.extraEnv = []string{"TENANTRY_DNS_RESOLVERS=" + dns.Addr(), "TENANTRY_DNS_PORT=" + strconv.Itoa(dns.Port()), "TENANTRY_DNS_ALLOW_PRIVATE=true"}
	return r
}

// serveAndRecord passes a request to the simulator and records it with its response. Requests for
// zones belong to the control interface, as in the sandbox.
func (r *serviceFixture) serveAndRecord(platform http.Handler, w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	if name, ok := strings.CutPrefix(q.URL.Path, "/_control/zones/"); ok {
		r.replaceZone(w, strings.TrimSuffix(name, "/records"), body)
		return
	}
	copied := &recordingWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.platformRequests = append(r.platformRequests, platformRequest{q.Method, q.URL.Path, q.Header.Clone(), body, copied.status, copied.body.Bytes(), w.Header().Get("Location")})
	}()
	platform.ServeHTTP(copied, q)
}

func (r *serviceFixture) replaceZone(w http.ResponseWriter, name string, body []byte) {
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

type recordingWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *recordingWriter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *recordingWriter) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

// recordedRequests returns the requests that plugins and browsers have sent to the simulator so
// far.
func (r *serviceFixture) recordedRequests() []platformRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]platformRequest{}, r.platformRequests...)
}

// env returns the environment with which a server finds its database, the mail platform and the
// DNS.
func (r *serviceFixture) env(data, database string) []string {
	env := append([]string{
		"TENANTRY_DATA_DIR=" + data, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_DRAIN_DELAY=0s",
	}, r.extraEnv...)
	if database != "" {
		env = append(env, "TENANTRY_DATABASE_URL="+database)
	}
	for name, value := range r.settings {
		env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
	}
	return env
}

// runCommand runs one of the operator's commands and returns the JSON object that it prints.
func (r *serviceFixture) runCommand(env []string, args ...string) object {
	r.t.Helper()
	cmd := exec.Command(r.binary.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
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

// newAccount creates an account with an API key. It creates an embedded database that does not
// exist.
func (r *serviceFixture) newAccount(env []string, email, plan string, slots int) (id, key string) {
	r.t.Helper()
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "TENANTRY_DATA_DIR=") }); i >= 0 &&
		!slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TENANTRY_DATABASE_URL=") }) {
		if _, err := os.Stat(filepath.Join(strings.TrimPrefix(env[i], "TENANTRY_DATA_DIR="), "tenantry.db")); os.IsNotExist(err) {
			r.runCommand(env, "migrate")
		}
	}
	id = r.runCommand(env, "account", "create", "--email", email, "--plan", plan, "--tenant-slots", strconv.Itoa(slots)).text("account_id")
	return id, r.runCommand(env, "key", "create", "--account", id).text("api_key")
}

var servingLine = regexp.MustCompile(`"msg":"serving","api":"([^"]+)","admin":"([^"]+)"`)

// serve starts a server and waits until it serves. The returned client has no API key.
func (r *serviceFixture) serve(env []string, flags ...string) (*process, client) {
	r.t.Helper()
	p := startProcess(r.t, r.binary, env, io.Discard, append([]string{"serve"}, flags...)...)
	deadline := time.After(waitTimeout)
	for {
		if at := servingLine.FindStringSubmatch(p.logs.String()); at != nil {
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

// newTenant creates a simulated tenant whose operations complete without delay.
func (r *serviceFixture) newTenant(c client) (guid, admin string) {
	r.t.Helper()
	made := c.control("POST", "/tenants", object{})
	c.control("POST", "/tenants/"+made.text("tenant_id")+"/behaviour", noDelays())
	return made.text("tenant_id"), made.text("admin")
}

// cmdlet returns the cmdlet that an Exchange request invokes, or "".
func (s platformRequest) cmdlet() string {
	var in struct {
		CmdletInput struct{ CmdletName string }
	}
	_ = json.Unmarshal(s.body, &in)
	return in.CmdletInput.CmdletName
}
