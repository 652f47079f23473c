// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
	cloudflare "github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const connectionMembers = "connection_id account_id provider name status zones_visible tested_at created_at"

// simulated is Cloudflare as its simulator has it, with a token that is known to
// nobody else.
type simulated struct {
	token   string
	url     string
	revoked atomic.Bool  // the token
	calls   atomic.Int64 // with the token
	// met, when set, is told of each call before it is answered.
	met atomic.Pointer[func()]
}

func newSimulated(t *testing.T, zones ...string) *simulated {
	t.Helper()
	c := &simulated{token: "canary" + rand.Text()}
	var inner http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if met := c.met.Load(); met != nil {
			(*met)()
		}
		if r.Header.Get("Authorization") == "Bearer "+c.token {
			c.calls.Add(1)
			if !c.revoked.Load() {
				r.Header.Set("Authorization", "Bearer "+cloudflare.Token)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	handler, ready, err := cloudflare.New(simulate.Options{URL: server.URL, DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	inner, c.url = handler, ready.Settings["api_url"]
	for _, zone := range zones {
		simulatorDo(t, "PUT", server.URL+"/_control/zones/"+zone, "{}")
	}
	return c
}

func simulatorDo(t *testing.T, method, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 300 {
		raw, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s: %d %s", method, url, answer.StatusCode, raw)
	}
}

// env lets commands find Cloudflare there.
func (c *simulated) env() string { return "TENANTRY_PROVIDERS_CLOUDFLARE_API_URL=" + c.url }

// secretIn writes a credential file.
func secretIn(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// told is the error that a command printed as JSON.
type told struct{ Code, Message, Fix string }

// refusal checks how a command was refused.
func (o operated) refusal(t *testing.T, code int, name string) told {
	t.Helper()
	var printed struct{ Error told }
	if err := json.Unmarshal([]byte(o.errors), &printed); err != nil || o.code != code || o.output != "" || printed.Error.Code != name {
		t.Errorf("%v: exit code %d, want %d %s\n%s%s", o.args, o.code, code, name, o.output, o.errors)
	}
	return printed.Error
}

// connected checks which connections there are, as list shows them.
func connected(t *testing.T, env []string, want ...object) {
	t.Helper()
	list := operate(t, env, "dns-connection", "list", "-o", "json").json(t)
	got := list.objects("connections")
	if list.at("count") != float64(len(want)) || len(got) != len(want) {
		t.Fatalf("got %v, want %v", list, want)
	}
	for i := range want {
		has(t, "entry", got[i], connectionMembers)
		sees(t, got[i], want[i])
	}
}

func TestOperatorsDNSConnections(t *testing.T) {
	t.Parallel()
	c := newSimulated(t, "a.test", "b.test")
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), c.env()}
	ann := operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t).text("account_id")
	add := func(file string, more ...string) operated {
		args := []string{"dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", file, "-o", "json"}
		return operate(t, env, append(args, more...)...)
	}
	good := secretIn(t, c.token)
	bad := add(secretIn(t, "another"+rand.Text())).refusal(t, cli.ExitOutside, "provider_credential_rejected")
	if !strings.HasSuffix(bad.Message, "; nothing is stored") || bad.Fix != "give a credential that the provider takes, with the rights that it needs" {
		t.Errorf("got %v", bad)
	}
	connected(t, env)

	one := add(good, "--name", "zones of ann").json(t)
	has(t, "connection", one, connectionMembers)
	sees(t, one, object{"account_id": ann, "provider": "cloudflare", "name": "zones of ann", "status": "connected", "zones_visible": 2})
	two := add(good).json(t)
	connected(t, env, one, two)

	c.revoked.Store(true)
	failed := operate(t, env, "dns-connection", "test", "--connection", one.text("connection_id"), "-o", "json")
	failed.refusal(t, cli.ExitOutside, "provider_credential_rejected")
	one["status"] = "failed"
	delete(one, "tested_at")
	connected(t, env, one, two)
	c.revoked.Store(false)
	operate(t, env, "keyset", "rotate", "-o", "json").json(t)
	tested := operate(t, env, "dns-connection", "test", "--connection", one.text("connection_id"), "-o", "json").json(t)
	has(t, "test", tested, connectionMembers)
	one["status"] = "connected"
	sees(t, tested, one)

	removed := operate(t, env, "dns-connection", "remove", "--connection", two.text("connection_id"), "-o", "json").json(t)
	has(t, "removal", removed, "connection_id account_id provider name status removed_at")
	sees(t, removed, object{"connection_id": two["connection_id"], "status": "removed"})
	for _, act := range []string{"test", "remove"} {
		operate(t, env, "dns-connection", act, "--connection", two.text("connection_id"), "-o", "json").refusal(t, cli.ExitNotFound, "dns_connection_not_found")
	}
	connected(t, env, one)
	c.followed(t, env, ann)
}

// followed: what is stored goes with a backup, is recorded without its secret,
// and ends with its account.
func (c *simulated) followed(t *testing.T, env []string, account string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.backup")
	operate(t, env, "backup", file)
	elsewhere := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), c.env()}
	operate(t, elsewhere, "restore", file)
	list := operate(t, elsewhere, "dns-connection", "list", "-o", "json").json(t).objects("connections")
	if len(list) != 1 {
		t.Fatalf("restored: %v", list)
	}
	operate(t, elsewhere, "dns-connection", "test", "--connection", list[0].text("connection_id"), "-o", "json").json(t)

	sees(t, operate(t, env, "account", "close", "--account", account, "--yes", "-o", "json").json(t), object{"dns_connections_removed": 1})
	connected(t, env)
	acts := operate(t, env, "audit", "list", "--account", account, "-o", "json").output
	for action, want := range map[string]int{"dns_connection.add": 2, "dns_connection.remove": 2} {
		if n := strings.Count(acts, `"`+action+`"`); n != want {
			t.Errorf("%d acts %s, want %d", n, action, want)
		}
	}
	if strings.Contains(acts, c.token) {
		t.Error("the acts hold the credential")
	}
	operate(t, env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--credential-file", secretIn(t, c.token), "-o", "json").
		refusal(t, cli.ExitRefused, "account_closed")
}

// TestDNSConnectionToARealServer: PowerDNS, with fields of the account, from
// PostgreSQL, where no command makes a keyset of its own.
func TestDNSConnectionToARealServer(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	env := []string{
		"TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_DATABASE_URL=" + testserver.Database(t), "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true",
	}
	operate(t, env, "migrate", "-o", "json").json(t)
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	add := func(env []string, set string) operated {
		return operate(t, env, "dns-connection", "add", "--account", "ann@example.com", "--provider", "powerdns",
			"--credential-file", secretIn(t, server.Key), "--set", "api_url="+set, "-o", "json")
	}
	if got := add(env, server.API).refusal(t, cli.ExitRefused, "failed"); !strings.Contains(got.Fix, "keyset create") {
		t.Errorf("got %v", got)
	}
	operate(t, env, "keyset", "create", "-o", "json").json(t)
	made := add(env, server.API).json(t)
	sees(t, made, object{"provider": "powerdns", "name": "", "status": "connected", "zones_visible": 0})
	operate(t, env, "dns-connection", "test", "--connection", made.text("connection_id"), "-o", "json").json(t)
	add(env, "http://127.0.0.1:1").refusal(t, cli.ExitOutside, "provider_unavailable")
	guarded := append(env, "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=false")
	if clear := add(guarded, server.API).refusal(t, cli.ExitUsage, "usage"); !strings.Contains(clear.Message, "http would send the key in clear") {
		t.Errorf("got %v", clear)
	}
	private := add(guarded, strings.Replace(server.API, "http:", "https:", 1)).refusal(t, cli.ExitOutside, "invalid_request")
	if !strings.Contains(private.Fix, "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE") {
		t.Errorf("got %v", private)
	}
	server.Stop()
	operate(t, env, "dns-connection", "test", "--connection", made.text("connection_id"), "-o", "json").refusal(t, cli.ExitOutside, "provider_unavailable")
	made["status"] = "failed"
	delete(made, "tested_at")
	connected(t, env, made)
}

// TestDNSConnectionMistakes: each ends with what to do, and repeats no value.
func TestDNSConnectionMistakes(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	key := secretIn(t, "c2VjcmV0")
	for _, tt := range []struct {
		code int
		args string
		says string
	}{
		{cli.ExitUsage, "add --provider cloudflare", "--account"},
		{cli.ExitUsage, "add --account ann@example.com", "--provider"},
		{cli.ExitUsage, "add --account ann@example.com --provider nope", "cloudflare, powerdns, rfc2136"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare", "--credential-file is missing"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set api_token=5up3rs3cr3t", "--credential-file"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set api_url=5up3rs3cr3t", "the operator's"},
		{cli.ExitUsage, "add --account ann@example.com --provider cloudflare --set 5up3rs3cr3t", "NAME=VALUE"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --credential-file " + key + " --set server=5up3rs3cr3t", "needs --set zones, --set key_name"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set server=a --set server=5up3rs3cr3t", "twice"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set server=", "no value"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --set servers=a", "--set server=…"},
		{cli.ExitUsage, "add --account ann@example.com --provider powerdns --credential-file " + key + " --set api_url=5up3rs3cr3t", "api_url: it is a URL"},
		{cli.ExitUsage, "add --account ann@example.com --provider rfc2136 --credential-file " + secretIn(t, "5up3rs3cr3t!") +
			" --set server=ns1.example.com --set zones=example.com --set key_name=k", "key_secret: it is missing or is not base64"},
		{cli.ExitRefused, "add --account ann@example.com --provider cloudflare --credential-file missing", "missing"},
		{cli.ExitNotFound, "add --account bob@example.com --provider cloudflare --credential-file " + key, "account list"},
		{cli.ExitNotFound, "list --account bob@example.com", "account list"},
		{cli.ExitUsage, "test", "--connection"},
		{cli.ExitUsage, "remove", "--connection"},
	} {
		got := operate(t, env, append([]string{"dns-connection"}, strings.Fields(tt.args)...)...)
		got.fails(t, tt.code)
		if !strings.Contains(got.errors, tt.says) || strings.Contains(got.errors, "5up3rs3cr3t") {
			t.Errorf("%s:\n%s", tt.args, got.errors)
		}
	}
	without := append(env, "TENANTRY_PLUGIN_DIR="+t.TempDir())
	operate(t, without, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", key).fails(t, cli.ExitRefused)
	connected(t, env)
}

// TestAddIsKilled: whenever that is, a connection is stored as a whole or not
// at all. In every other round the provider has not answered yet.
func TestAddIsKilled(t *testing.T) {
	t.Parallel()
	c := newSimulated(t, "a.test")
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), c.env()}
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	file := secretIn(t, c.token)
	for round, name := range []string{"unanswered", "answered", "unanswered", "answered", "answered"} {
		asked, over := make(chan struct{}, 100), make(chan struct{})
		met := func() {
			asked <- struct{}{}
			if name == "unanswered" {
				<-over
			}
		}
		c.met.Store(&met)
		p, err := launch(binary(t, release), env, io.Discard, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare",
			"--credential-file", file, "--name", fmt.Sprint(name, " ", round))
		if err != nil {
			t.Fatal(err)
		}
		<-asked
		p.kill()
		close(over)
	}
	c.met.Store(nil)
	list := operate(t, env, "dns-connection", "list", "-o", "json").json(t).objects("connections")
	for _, one := range list {
		if strings.HasPrefix(one.text("name"), "unanswered") {
			t.Errorf("stored though its test had no answer: %v", one)
		}
		operate(t, env, "dns-connection", "test", "--connection", one.text("connection_id"), "-o", "json").json(t)
	}
	if n := strings.Count(operate(t, env, "audit", "list", "-o", "json").output, `"dns_connection.add"`); n != len(list) {
		t.Errorf("%d connections, %d acts", len(list), n)
	}
	operate(t, env, "dns-connection", "add", "--account", "ann@example.com", "--provider", "cloudflare", "--credential-file", file, "-o", "json").json(t)
}
