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
// with which a server finds them. It records the requests to the mail platform.
type serviceFixture struct {
	t            *testing.T
	build        programs
	url          string            // the URL of the platform's simulator
	zones        *zones.Store      // the zones that the DNS server serves
	settings     map[string]string // settings of the mail platform, by name
	platformDir  string            // the data folder of the platform's simulator
	stopPlatform func()
	extraEnv     []string // environment variables that env adds for every server

	mu               sync.Mutex
	platformRequests []platformRequest
}

func (f *serviceFixture) clientSecret() string {
	f.t.Helper()
	return strings.TrimSpace(fileText(f.t, f.settings["client_secret_file"]))
}

// platformRequest is one request to the simulated mail platform with its response.
type platformRequest struct {
	method, path string
	header       http.Header
	body         []byte
	status       int
	answer       []byte
	location     string // the Location header of the response
}

// newServiceFixture starts the simulated mail platform and DNS, and stops both when the test ends.
func newServiceFixture(t *testing.T, build programs) *serviceFixture {
	t.Helper()
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	must(t, err)
	dns, err := zones.Listen(t.Context(), store)
	must(t, err)
	t.Cleanup(func() { _ = dns.Close() })
	fixture := &serviceFixture{t: t, build: build, zones: store, platformDir: t.TempDir()}
	var simulatorHandler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fixture.serveAndRecord(simulatorHandler, w, req) }))
	t.Cleanup(server.Close)
	fixture.url, fixture.stopPlatform = server.URL, func() { server.CloseClientConnections(); server.Close() }
	dnsLocator := http.NewServeMux()
	dnsLocator.HandleFunc("GET /dns", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"addr": dns.Addr()})
	})
	dnsLocatorServer := httptest.NewServer(dnsLocator)
	t.Cleanup(dnsLocatorServer.Close)
	must(t, shareSigningKey(fixture.platformDir))
	handler, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: fixture.platformDir, World: dnsLocatorServer.URL, Log: io.Discard})
	must(t, err)
	simulatorHandler = handler
	fixture.settings = ready.Settings
	fixture.settings["client_secret_file"] = credentialFile(t, ready.Secrets["client_secret"])
	fixture.extraEnv = []string{"TENANTRY_DNS_RESOLVERS=" + dns.Addr(), "TENANTRY_DNS_PORT=" + strconv.Itoa(dns.Port()), "TENANTRY_DNS_ALLOW_PRIVATE=true"}
	return fixture
}

// serveAndRecord passes a request to the simulator and records the request and its response.
// Requests for zones are neither passed on nor recorded, because the simulator has no zones.
// replaceZone answers them, as the sandbox's control interface does.
func (f *serviceFixture) serveAndRecord(simulatorHandler http.Handler, w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if name, ok := strings.CutPrefix(req.URL.Path, "/_control/zones/"); ok {
		f.replaceZone(w, strings.TrimSuffix(name, "/records"), body)
		return
	}
	recording := &recordingWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.platformRequests = append(f.platformRequests, platformRequest{req.Method, req.URL.Path, req.Header.Clone(), body, recording.status, recording.body.Bytes(), w.Header().Get("Location")})
	}()
	simulatorHandler.ServeHTTP(recording, req)
}

func (f *serviceFixture) replaceZone(w http.ResponseWriter, name string, body []byte) {
	var records []zones.Record
	err := json.Unmarshal(body, &records)
	if err == nil {
		err = f.zones.Replace(name, records)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "{}")
}

// recordingWriter passes a response on and keeps its status and body.
type recordingWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *recordingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

// recordedRequests returns the requests that the simulator has answered so far. Among them are the
// requests of tests to its control interface.
func (f *serviceFixture) recordedRequests() []platformRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]platformRequest{}, f.platformRequests...)
}

// env returns the environment with which a server finds its database, the mail platform and the
// DNS.
func (f *serviceFixture) env(dataDir, database string) []string {
	env := append([]string{
		"TENANTRY_DATA_DIR=" + dataDir, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_DRAIN_DELAY=0s",
	}, f.extraEnv...)
	if database != "" {
		env = append(env, "TENANTRY_DATABASE_URL="+database)
	}
	for name, value := range f.settings {
		env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
	}
	return env
}

// runCommand runs one of the operator's commands and returns the JSON object that it prints.
func (f *serviceFixture) runCommand(env []string, args ...string) object {
	f.t.Helper()
	cmd := exec.Command(f.build.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("the command %v fails: %v\n%s", args, err, stderr.Bytes())
	}
	var printed object
	if err := json.Unmarshal(out, &printed); err != nil {
		f.t.Fatalf("the command %v printed no JSON object: %v\n%s", args, err, out)
	}
	return printed
}

// newAccount creates an account with an API key. It first creates the embedded database, if env
// names no other database and the file does not exist.
func (f *serviceFixture) newAccount(env []string, email, plan string, slots int) (id, key string) {
	f.t.Helper()
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "TENANTRY_DATA_DIR=") }); i >= 0 &&
		!slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TENANTRY_DATABASE_URL=") }) {
		if _, err := os.Stat(filepath.Join(strings.TrimPrefix(env[i], "TENANTRY_DATA_DIR="), "tenantry.db")); os.IsNotExist(err) {
			f.runCommand(env, "migrate")
		}
	}
	id = f.runCommand(env, "account", "create", "--email", email, "--plan", plan, "--tenant-slots", strconv.Itoa(slots)).text("account_id")
	return id, f.runCommand(env, "key", "create", "--account", id).text("api_key")
}

var servingLine = regexp.MustCompile(`"msg":"serving","api":"([^"]+)","admin":"([^"]+)"`)

// serve starts a server and waits until it serves. The returned client has no API key.
func (f *serviceFixture) serve(env []string, flags ...string) (*process, client) {
	f.t.Helper()
	started := startProcess(f.t, f.build, env, io.Discard, append([]string{"serve"}, flags...)...)
	deadline := time.After(waitTimeout)
	for {
		if match := servingLine.FindStringSubmatch(started.logs.String()); match != nil {
			return started, client{f.t, sandbox.Ready{APIURL: match[1], AdminURL: match[2], ControlURL: f.url + "/_control"}}
		}
		select {
		case <-started.done:
			f.t.Fatalf("the server ended: %s", started.logs.String())
		case <-deadline:
			f.t.Fatalf("the server does not serve: %s", started.logs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// newTenant creates a simulated tenant whose operations complete without delay.
func (f *serviceFixture) newTenant(c client) (guid, admin string) {
	f.t.Helper()
	created := c.control("POST", "/tenants", object{})
	c.control("POST", "/tenants/"+created.text("tenant_id")+"/behaviour", noDelays())
	return created.text("tenant_id"), created.text("admin")
}

// cmdlet returns the cmdlet that an Exchange request invokes, or "".
func (r platformRequest) cmdlet() string {
	var in struct {
		CmdletInput struct{ CmdletName string }
	}
	_ = json.Unmarshal(r.body, &in)
	return in.CmdletInput.CmdletName
}
