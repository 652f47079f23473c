// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
	cloudflare "github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const dnsConnectionMembers = "connection_id account_id provider name status zones_visible tested_at created_at"

// cloudflareFake is the simulator of Cloudflare behind a proxy that accepts one token.
type cloudflareFake struct {
	token   string
	url     string
	revoked atomic.Bool  // true if the token is revoked
	calls   atomic.Int64 // number of calls with the token, also after it was revoked
	// onCall, if set, runs before each call is answered.
	onCall atomic.Pointer[func()]
}

// newCloudflareFake starts a simulated Cloudflare with empty zones.
func newCloudflareFake(t *testing.T, zones ...string) *cloudflareFake {
	t.Helper()
	c := &cloudflareFake{token: "canary" + rand.Text()}
	var simulatorHandler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onCall := c.onCall.Load(); onCall != nil {
			(*onCall)()
		}
		if r.Header.Get("Authorization") == "Bearer "+c.token {
			c.calls.Add(1)
			if !c.revoked.Load() {
				r.Header.Set("Authorization", "Bearer "+cloudflare.Token)
			}
		}
		simulatorHandler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	handler, ready, err := cloudflare.New(simulate.Options{URL: server.URL, DataDir: t.TempDir(), Log: io.Discard})
	must(t, err)
	simulatorHandler, c.url = handler, ready.Settings["api_url"]
	for _, zone := range zones {
		putToSimulator(t, c.zoneURL(zone), "{}")
	}
	return c
}

func putToSimulator(t *testing.T, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 300 {
		raw, _ := io.ReadAll(answer.Body)
		t.Fatalf("PUT %s is answered %d %s, want a success", url, answer.StatusCode, raw)
	}
}

// zoneURL returns the URL of a zone in the control interface of the simulator.
func (c *cloudflareFake) zoneURL(zone string) string {
	return strings.TrimSuffix(c.url, "/client/v4") + "/_control/zones/" + zone
}

// env returns the setting with which commands find the fake.
func (c *cloudflareFake) env() string { return "TENANTRY_PROVIDERS_CLOUDFLARE_API_URL=" + c.url }

func credentialFile(t *testing.T, text string) string {
	t.Helper()
	return writeTempFile(t, text+"\n", 0o600)
}

type commandError struct{ Code, Message, Fix string }

// checkError checks exit code and error code of a command that failed, and returns its error.
func (r commandResult) checkError(t *testing.T, code int, errorCode string) commandError {
	t.Helper()
	var printed struct{ Error commandError }
	if err := json.Unmarshal([]byte(r.stderr), &printed); err != nil || r.code != code || r.stdout != "" || printed.Error.Code != errorCode {
		t.Errorf("%v: exit code %d, want %d and the error %s\n%s%s", r.args, r.code, code, errorCode, r.stdout, r.stderr)
	}
	return printed.Error
}

func checkConnections(t *testing.T, env []string, want ...object) {
	t.Helper()
	list := runTenantry(t, env, "dns-connection", "list", "-o", "json").mustJSON(t)
	got := list.objects("connections")
	if list.valueAt("count") != float64(len(want)) || len(got) != len(want) {
		t.Fatalf("dns-connection list shows %v, want %v", list, want)
	}
	for i := range want {
		checkMembers(t, "entry", got[i], dnsConnectionMembers)
		checkValues(t, got[i], want[i])
	}
}

func TestOperatorManagesDNSConnections(t *testing.T) {
	t.Parallel()
	cloudflare := newCloudflareFake(t, "a.test", "b.test")
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), cloudflare.env()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	account := runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t).text("account_id")
	addConnection := func(file string, flags ...string) commandResult {
		args := []string{"dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", file, "-o", "json"}
		return runTenantry(t, env, append(args, flags...)...)
	}
	validFile := credentialFile(t, cloudflare.token)
	refused := addConnection(credentialFile(t, "another"+rand.Text())).checkError(t, cli.ExitExternal, "provider_credential_rejected")
	if !strings.HasSuffix(refused.Message, "; nothing is stored") || refused.Fix != "use a credential that the provider accepts and that has the necessary permissions" {
		t.Errorf("the refusal is %v, want the note that nothing is stored, and the fix", refused)
	}
	checkConnections(t, env)

	kept := addConnection(validFile, "--name", "zones of ann").mustJSON(t)
	checkMembers(t, "connection", kept, dnsConnectionMembers)
	checkValues(t, kept, object{"account_id": account, "provider": "cloudflare", "name": "zones of ann", "status": "connected", "zones_visible": 2})
	removable := addConnection(validFile).mustJSON(t)
	checkConnections(t, env, kept, removable)

	cloudflare.revoked.Store(true)
	failed := runTenantry(t, env, "dns-connection", "test", "--connection", kept.text("connection_id"), "-o", "json")
	failed.checkError(t, cli.ExitExternal, "provider_credential_rejected")
	kept["status"] = "failed"
	delete(kept, "tested_at")
	checkConnections(t, env, kept, removable)
	cloudflare.revoked.Store(false)
	runTenantry(t, env, "keyset", "rotate", "-o", "json").mustJSON(t)
	tested := runTenantry(t, env, "dns-connection", "test", "--connection", kept.text("connection_id"), "-o", "json").mustJSON(t)
	checkMembers(t, "test", tested, dnsConnectionMembers)
	kept["status"] = "connected"
	checkValues(t, tested, kept)

	removed := runTenantry(t, env, "dns-connection", "remove", "--connection", removable.text("connection_id"), "-o", "json").mustJSON(t)
	checkMembers(t, "removal", removed, "connection_id account_id provider name status removed_at")
	checkValues(t, removed, object{"connection_id": removable["connection_id"], "status": "removed"})
	for _, action := range []string{"test", "remove"} {
		runTenantry(t, env, "dns-connection", action, "--connection", removable.text("connection_id"), "-o", "json").checkError(t, cli.ExitNotFound, "dns_connection_not_found")
	}
	checkConnections(t, env, kept)
	cloudflare.checkLifecycle(t, env, account)
}

// checkLifecycle checks that a backup contains a stored connection, that the audit events do not
// contain its secret, and that closing the account removes the connection and refuses new ones.
func (c *cloudflareFake) checkLifecycle(t *testing.T, env []string, account string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.backup")
	runTenantry(t, env, "backup", file)
	restoredEnv := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), c.env()}
	runTenantry(t, restoredEnv, "restore", file)
	list := runTenantry(t, restoredEnv, "dns-connection", "list", "-o", "json").mustJSON(t).objects("connections")
	if len(list) != 1 {
		t.Fatalf("the restored connections are %v, want 1", list)
	}
	runTenantry(t, restoredEnv, "dns-connection", "test", "--connection", list[0].text("connection_id"), "-o", "json").mustJSON(t)

	checkValues(t, runTenantry(t, env, "account", "close", "--account", account, "--yes", "-o", "json").mustJSON(t), object{"dns_connections_removed": 1})
	checkConnections(t, env)
	events := runTenantry(t, env, "audit", "list", "--account", account, "-o", "json").stdout
	for action, want := range map[string]int{"dns_connection.add": 2, "dns_connection.remove": 2} {
		if n := strings.Count(events, `"`+action+`"`); n != want {
			t.Errorf("there are %d audit events %s, want %d", n, action, want)
		}
	}
	if strings.Contains(events, c.token) {
		t.Error("the audit events contain the credential")
	}
	runTenantry(t, env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--credential-file", credentialFile(t, c.token), "-o", "json").
		checkError(t, cli.ExitRefused, "account_closed")
}

// TestDNSConnectionHasAccountSpecificFields adds a connection with account-specific fields. With
// PostgreSQL, `dns-connection add` does not create a missing keyset.
func TestDNSConnectionHasAccountSpecificFields(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPowerDNS(t.Context())
	must(t, err)
	t.Cleanup(server.Stop)
	env := []string{
		"TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_DATABASE_URL=" + testserver.Database(t), "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true",
	}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	addConnection := func(env []string, apiURL string) commandResult {
		return runTenantry(t, env, "dns-connection", "add", "--account", "ann@example.com", "--provider", "powerdns",
			"--credential-file", credentialFile(t, server.Key), "--set", "api_url="+apiURL, "-o", "json")
	}
	if got := addConnection(env, server.API).checkError(t, cli.ExitRefused, "failed"); !strings.Contains(got.Fix, "keyset create") {
		t.Errorf("the error is %v, want a fix that names keyset create", got)
	}
	runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
	created := addConnection(env, server.API).mustJSON(t)
	checkValues(t, created, object{"provider": "powerdns", "name": "", "status": "connected", "zones_visible": 0})
	runTenantry(t, env, "dns-connection", "test", "--connection", created.text("connection_id"), "-o", "json").mustJSON(t)
	addConnection(env, "http://127.0.0.1:1").checkError(t, cli.ExitExternal, "provider_unavailable")
	noPrivateEnv := append(env, "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=false")
	if plainHTTP := addConnection(noPrivateEnv, server.API).checkError(t, cli.ExitUsage, "usage"); !strings.Contains(plainHTTP.Message, "http would send the key in clear") {
		t.Errorf("the error is %v, want the reason that http would send the key in clear", plainHTTP)
	}
	privateAddress := addConnection(noPrivateEnv, strings.Replace(server.API, "http:", "https:", 1)).checkError(t, cli.ExitExternal, "invalid_request")
	if !strings.Contains(privateAddress.Fix, "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE") {
		t.Errorf("the error is %v, want a fix that names the setting for private addresses", privateAddress)
	}
	server.Stop()
	runTenantry(t, env, "dns-connection", "test", "--connection", created.text("connection_id"), "-o", "json").checkError(t, cli.ExitExternal, "provider_unavailable")
	created["status"] = "failed"
	delete(created, "tested_at")
	checkConnections(t, env, created)
}

// TestDNSConnectionMistakesAreExplained checks that each error names the mistake or the remedy,
// and does not repeat the rejected value.
func TestDNSConnectionMistakesAreExplained(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	keyFile := credentialFile(t, "c2VjcmV0")
	for _, tc := range []struct {
		exitCode  int
		args      string
		wantError string // a part of the error
	}{
		{cli.ExitUsage, "add --provider cloudflare", "--account"},
		{cli.ExitUsage, "add --account ann@example.com", "--provider"},
		{cli.ExitUsage, "add --account ann@example.com --provider nope", "cloudflare, powerdns, rfc2136"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare", "--credential-file is missing"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set api_token=5up3rs3cr3t", "--credential-file"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set api_url=5up3rs3cr3t", "set by the operator"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set 5up3rs3cr3t", "NAME=VALUE"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --credential-file " + keyFile + " --set server=5up3rs3cr3t", "needs --set zones, --set key_name"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set server=a --set server=5up3rs3cr3t", "repeated"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set server=", "no value"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set servers=a", "--set server=…"},
		{cli.ExitUsage, "add --account ann@example.com --provider powerdns --credential-file " + keyFile + " --set api_url=5up3rs3cr3t", "api_url: it must be a URL"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --credential-file " + credentialFile(t, "5up3rs3cr3t!") +
			" --set server=ns1.example.com --set zones=example.com --set key_name=k", "key_secret: it is missing or is not base64"},
		{cli.ExitRefused, "add --account ann@example.com --provider cloudflare --credential-file missing", "missing"},
		{cli.ExitNotFound, "add --account bob@example.com --provider cloudflare --credential-file " + keyFile, "account list"},
		{cli.ExitNotFound, "list --account bob@example.com", "account list"},
		{cli.ExitUsage, "test", "--connection"},
		{cli.ExitUsage, "remove", "--connection"},
	} {
		got := runTenantry(t, env, append([]string{"dns-connection"}, strings.Fields(tc.args)...)...)
		got.checkFailure(t, tc.exitCode)
		if !strings.Contains(got.stderr, tc.wantError) || strings.Contains(got.stderr, "5up3rs3cr3t") {
			t.Errorf("%s: the error lacks %q or repeats the rejected value:\n%s", tc.args, tc.wantError, got.stderr)
		}
	}
	noPluginsEnv := append(env, "TENANTRY_PLUGIN_DIR="+t.TempDir())
	runTenantry(t, noPluginsEnv, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", keyFile).checkFailure(t, cli.ExitRefused)
	checkConnections(t, env)
}

// TestKilledDNSConnectionAddStoresAllOrNothing kills the command at different moments. The
// connection is then stored either completely or not at all. In the rounds named unanswered, the
// provider has not answered when the command is killed.
func TestKilledDNSConnectionAddStoresAllOrNothing(t *testing.T) {
	t.Parallel()
	cloudflare := newCloudflareFake(t, "a.test")
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), cloudflare.env()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	file := credentialFile(t, cloudflare.token)
	for round, moment := range []string{"unanswered", "answered", "unanswered", "answered", "answered"} {
		called, killed := make(chan struct{}, 100), make(chan struct{}) // a command makes fewer than 100 calls
		onCall := func() {
			called <- struct{}{}
			if moment == "unanswered" {
				<-killed
			}
		}
		cloudflare.onCall.Store(&onCall)
		p, err := launchProcess(requirePrograms(t, releaseBuild), env, io.Discard, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare",
			"--credential-file", file, "--name", fmt.Sprint(moment, " ", round))
		must(t, err)
		<-called
		p.kill()
		close(killed)
	}
	cloudflare.onCall.Store(nil)
	list := runTenantry(t, env, "dns-connection", "list", "-o", "json").mustJSON(t).objects("connections")
	for _, connection := range list {
		if strings.HasPrefix(connection.text("name"), "unanswered") {
			t.Errorf("a connection is stored although the provider had not answered: %v", connection)
		}
		runTenantry(t, env, "dns-connection", "test", "--connection", connection.text("connection_id"), "-o", "json").mustJSON(t)
	}
	if n := strings.Count(runTenantry(t, env, "audit", "list", "-o", "json").stdout, `"dns_connection.add"`); n != len(list) {
		t.Errorf("there are %d connections and %d audit events of additions, want equal numbers", len(list), n)
	}
	runTenantry(t, env, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", file, "-o", "json").mustJSON(t)
}
