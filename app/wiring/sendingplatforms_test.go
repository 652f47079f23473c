// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// startInstantly starts a server that answers like Instantly. It accepts API keys that begin with
// keyPrefix, and counts the requests.
func startInstantly(t *testing.T, keyPrefix string) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+keyPrefix):
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"statusCode": 401, "error": "Unauthorized", "message": "Invalid API key"})
		case strings.HasSuffix(r.URL.Path, "/workspaces/current"):
			_ = json.NewEncoder(w).Encode(map[string]any{"id": "01890000-0000-7000-8000-000000000001", "name": "One"})
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"session_id": "s-1", "auth_url": "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=1",
				"expires_at": time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339Nano)})
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func keyCredential(apiKey string) secret.Credential {
	return secret.Credential{Secrets: map[string]secret.Text{"api_key": secret.New(apiKey)}}
}

// TestPlatformsListsTheSendingPlugins checks that Platforms lists the sending plugins with the
// operator's auth hosts. Platforms leaves out a plugin that fails to start, and starts no plugin of
// a different kind. Calls of a plugin that fails to start, or that does not exist, fail as
// outcome.Down.
func TestPlatformsListsTheSendingPlugins(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	providerSettings := map[string]map[string]string{"instantly": {"auth_hosts": "login.microsoftonline.us, proxy.example:8443"}}
	platforms := openTestProviders(t, newSendingPlatforms, testserver.PluginsWithout(t, "sending-plusvibe"), fingerprinter, counters, providerSettings)
	listed := listWhenReady(t, platforms.Platforms, func(listed []integration.Provider) bool {
		return len(listed) == len(platforms.host.Names(wire.KindSending))-1
	})
	var ids []string
	for _, platform := range listed {
		ids = append(ids, platform.ID)
		if platform.ID == "instantly" && (platform.Title != "Instantly" || !slices.Equal(platform.AuthHosts, []string{"login.microsoftonline.us", "proxy.example:8443"})) {
			t.Errorf("got %+v, want the title and the auth hosts of Instantly", platform)
		}
	}
	if !slices.IsSorted(ids) || !slices.Contains(ids, "instantly") || !slices.Contains(ids, "smartlead") || slices.Contains(ids, "plusvibe") {
		t.Errorf("the platforms are %v, want them sorted, with instantly and smartlead, without plusvibe", ids)
	}
	for _, plugin := range platforms.host.Status() {
		if started := plugin.Starts > 0; started != slices.Contains(ids, plugin.Name) {
			t.Errorf("the plugin %s was started: %v, want only the plugins %v started", plugin.Name, started, ids)
		}
	}
	if _, err := platforms.Capabilities(t.Context(), "plusvibe", []string{"api_key"}); outcome.KindOf(err) != outcome.Down {
		t.Errorf("the capabilities of a plugin that does not start: %v, want an error of the kind down", err)
	}
	for _, missing := range []string{"plusvibe", "nowhere"} {
		if _, err := platforms.For(missing, keyCredential("x")).Check(t.Context()); outcome.KindOf(err) != outcome.Down {
			t.Errorf("a call of %s: %v, want an error of the kind down", missing, err)
		}
		if _, err := platforms.ParseCredential(t.Context(), missing, secret.New("x")); err == nil {
			t.Errorf("ParseCredential accepts a credential of %s, want an error", missing)
		}
	}
}

// TestRemovedSendingPluginIsNotOffered removes a plugin from the catalog after the plugin has
// described itself. Platforms no longer lists the plugin, and ParseCredential refuses its name as
// unknown. Calls of existing integrations fail as outcome.Down.
func TestRemovedSendingPluginIsNotOffered(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	dir := testserver.PluginsWithout(t, "")
	platforms := openTestProviders(t, newSendingPlatforms, dir, fingerprinter, counters, nil)
	startPlugin(t, platforms.host, "instantly")
	listsInstantly := func() bool {
		t.Helper()
		listed, err := platforms.Platforms(t.Context())
		must(t, err)
		return slices.ContainsFunc(listed, func(platform integration.Provider) bool { return platform.ID == "instantly" })
	}
	if _, err := platforms.ParseCredential(t.Context(), "instantly", secret.New("x")); err != nil || !listsInstantly() {
		t.Fatalf("before the removal: %v, want that Instantly is offered", err)
	}
	catalog := filepath.Join(dir, "catalog.json")
	text, err := os.ReadFile(catalog)
	must(t, err)
	var content struct {
		Plugins []pluginhost.CatalogEntry `json:"plugins"`
	}
	must(t, json.Unmarshal(text, &content))
	content.Plugins = slices.DeleteFunc(content.Plugins, func(entry pluginhost.CatalogEntry) bool { return entry.Name == "instantly" })
	text, err = json.Marshal(content)
	must(t, err)
	must(t, os.Remove(catalog)) // the catalog is a link to the file of all tests
	must(t, os.WriteFile(catalog, text, 0o600))
	must(t, platforms.host.Reload())

	if listsInstantly() {
		t.Error("Platforms lists the removed platform")
	}
	if _, err := platforms.ParseCredential(t.Context(), "instantly", secret.New("x")); !errors.Is(err, fault.UnknownProvider) || strings.Contains(err.Error(), "instantly") {
		t.Errorf("a credential of the removed platform: %v, want unknown_provider without instantly", err)
	}
	if _, err := platforms.For("instantly", keyCredential("x")).Check(t.Context()); outcome.KindOf(err) != outcome.Down {
		t.Errorf("a call of an existing integration: %v, want outcome.Down", err)
	}
}

// TestSendingPluginGetsEachFieldFromItsOwner checks that a plugin receives operator fields only
// from the operator and account fields only from the account. Invalid keys of one customer do not
// open the circuit for other customers.
func TestSendingPluginGetsEachFieldFromItsOwner(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	url, _ := startInstantly(t, "account-key")
	providerSettings := map[string]map[string]string{"instantly": {"base_url": url, "api_key": "operators"}}
	platforms := openTestProviders(t, newSendingPlatforms, testserver.Program(t, "release/plugins"), fingerprinter, counters, providerSettings)
	startPlugin(t, platforms.host, "instantly")
	account := keyCredential("account-key")
	account.Settings = map[string]string{"base_url": "http://" + testserver.FreeAddress(t), "workspace_id": "01890000-0000-7000-8000-000000000001"}
	reach, err := platforms.For("instantly", account).Check(t.Context())
	if err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].Name != "One" {
		t.Errorf("Check returned %+v, %v, want the workspace One", reach, err)
	}
	for _, invalid := range []secret.Credential{keyCredential("guessed"), {}} {
		for range 6 { // enough failures to open a circuit, if refusals counted
			if _, err := platforms.For("instantly", invalid).Check(t.Context()); outcome.KindOf(err) != outcome.Refused || strings.Contains(err.Error(), "guessed") {
				t.Errorf("an invalid key: %v, want a refusal without the key", err)
			}
		}
	}
	if _, err := platforms.For("instantly", account).StartSignIn(t.Context(), "anna@a.test"); err != nil {
		t.Errorf("a sign-in after calls with invalid keys: %v, want no error", err)
	}
	if circuits := platforms.chains["instantly"].circuits.Circuits(); len(circuits) != 1 || circuits[0].Domain != "provider" {
		t.Errorf("the circuits are %v, want one for the provider", circuits)
	}
}

// TestReplicasShareSendingBudget checks that two replicas and two workspaces of one key share the
// budgets of sign-in starts. In a minute, the plugin of Instantly allows 75 starts for a
// credential, and 120 starts for all credentials together. Bucket keys do not reveal the API key. A
// call that exceeds a budget is throttled with a retry time and does not reach the platform.
func TestReplicasShareSendingBudget(t *testing.T) {
	t.Parallel()
	fingerprinter, shared := newFingerprinterAndLimiter(t)
	counters := takeCounter{shared, map[string]int{}}
	url, calls := startInstantly(t, "key-")
	providerSettings := map[string]map[string]string{"instantly": {"base_url": url}}
	dir := testserver.Program(t, "release/plugins")
	replicas := []*sendingPlatforms{
		openTestProviders(t, newSendingPlatforms, dir, fingerprinter, counters, providerSettings), openTestProviders(t, newSendingPlatforms, dir, fingerprinter, counters, providerSettings),
	}
	for i, replica := range replicas {
		startPlugin(t, replica.host, "instantly")
		account := keyCredential("key-one")
		account.Settings = map[string]string{"workspace_id": string(rune('a' + i))}
		if _, err := replica.For("instantly", account).StartSignIn(t.Context(), "anna@a.test"); err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
		if _, err := replica.For("instantly", account).Check(t.Context()); outcome.KindOf(err) != 0 && outcome.KindOf(err) != outcome.Refused {
			t.Fatalf("replica %d: %v", i, err)
		}
	}
	startBuckets := map[string]string{} // the buckets of sign-in starts, by the kind of their owner
	for key, takes := range counters.takes {
		if strings.Contains(key, "key-one") || !strings.HasPrefix(key, "budget:instantly:") {
			t.Errorf("the bucket %s has the API key, or a wrong prefix", key)
		}
		if strings.HasSuffix(key, ":start_sign_in") {
			startBuckets[strings.Split(key, ":")[2]] = key
			if takes != 2 {
				t.Errorf("%d starts in the bucket %s, want 2", takes, key)
			}
		}
	}
	if len(startBuckets) != 2 {
		t.Fatalf("starts are counted in the buckets %v, want 2; all buckets are %v", startBuckets, slices.Sorted(maps.Keys(counters.takes)))
	}
	expectThrottled := func(replica *sendingPlatforms, key, exceeded string) {
		t.Helper()
		callsBefore := calls.Load()
		_, err := replica.For("instantly", keyCredential(key)).StartSignIn(t.Context(), "anna@a.test")
		var throttled *outcome.Error
		if !errors.As(err, &throttled) || throttled.Kind != outcome.Throttled || throttled.RetryAfter <= 0 || throttled.RetryAfter > time.Minute || calls.Load() != callsBefore {
			t.Errorf("a call that exceeds %s: %v after %d calls of the platform, want it throttled without a call", exceeded, err, calls.Load()-callsBefore)
		}
	}
	for range 75 { // starts of other replicas, until the budget is used up
		shared.Take(t.Context(), ratelimit.Bucket{Key: startBuckets["credential"], Limit: 75, Window: time.Minute})
	}
	expectThrottled(replicas[0], "key-one", "the credential's budget")
	if _, err := replicas[0].For("instantly", keyCredential("key-one")).Check(t.Context()); err != nil {
		t.Errorf("an operation with a different budget: %v, want no error", err)
	}
	if _, err := replicas[1].For("instantly", keyCredential("key-two")).StartSignIn(t.Context(), "anna@a.test"); err != nil {
		t.Errorf("a start with a different credential: %v, want no error", err)
	}
	for range 120 { // starts with other credentials, until the budget is used up
		shared.Take(t.Context(), ratelimit.Bucket{Key: startBuckets["egress"], Limit: 120, Window: time.Minute})
	}
	expectThrottled(replicas[1], "key-three", "the budget of all credentials together")
}

// describedPlatforms returns platforms that have these descriptions and no plugin processes.
func describedPlatforms(providerSettings map[string]map[string]string, descriptions ...wire.Description) *sendingPlatforms {
	cache := newTestCache()
	platforms := &sendingPlatforms{chains: map[string]callChain{}, descriptions: cache, operator: Connections{Settings: providerSettings}}
	platforms.names = func() []string { return slices.Sorted(maps.Keys(platforms.chains)) }
	for _, description := range descriptions {
		platforms.chains[description.Name], cache.byName[description.Name] = callChain{}, description
	}
	return platforms
}

// partnerPlatform describes a platform that needs a partner password of the account, and the
// operator's setting allow_passwords, for Microsoft OAuth.
var partnerPlatform = wire.Description{
	Name: "partnered", Capabilities: []string{"microsoft_oauth", "mailbox_refresh"},
	Needs: map[string][]string{"microsoft_oauth": {"partner_password", "allow_passwords"}},
	Fields: []wire.Field{
		{Name: "api_key", Account: true, Secret: true, Required: true}, {Name: "workspace_id", Account: true},
		{Name: "partner_password", Account: true, Secret: true}, {Name: "allow_passwords", Default: "false"}, {Name: "base_url"},
	},
}

func TestParseCredentialReadsTextAndJSON(t *testing.T) {
	platforms := describedPlatforms(nil, partnerPlatform)
	for text, want := range map[string]string{
		"k3y":             "api_key=k3y",
		" k3y\n":          "api_key=k3y",
		`{"api_key":"k"}`: "api_key=k",
		`{"api_key":"k","workspace_id":"w","partner_password":" "}`: "api_key=k workspace_id=w",
		`{"api_key":"k","partner_password":"p"}`:                    "api_key=k partner_password=p",
		"https://host.example#to|ken":                               "api_key=https://host.example#to|ken",
	} {
		credential, err := platforms.ParseCredential(t.Context(), "partnered", secret.New(text))
		var got []string
		for _, field := range partnerPlatform.Fields {
			if value := credential.Settings[field.Name] + credential.Secrets[field.Name].Reveal(); value != "" {
				got = append(got, field.Name+"="+value)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s was parsed as %v, %v, want %s", text, got, err, want)
		}
		if credential.Secrets["workspace_id"].Reveal() != "" || credential.Settings["api_key"] != "" || credential.Settings["partner_password"] != "" {
			t.Errorf("%s was parsed with the settings %v, want workspace_id in the settings, and the other fields in the secrets", text, credential.Settings)
		}
	}
}

// TestInvalidCredentialIsRefusedAndNotQuoted checks that errors do not quote the credential text,
// because any part of the text may be a secret.
func TestInvalidCredentialIsRefusedAndNotQuoted(t *testing.T) {
	platforms := describedPlatforms(nil, partnerPlatform)
	for _, text := range []string{
		"", "  ", "{}", `{"api_key":""}`, `{"api_key":"s3cret","s3cret":"s3cret"}`, `{"api_key":"s3cret","base_url":"s3cret"}`,
		`{"api_key":["s3cret"]}`, `{"api_key":"s3cret"`, `{"api_key":"s3cret"} s3cret`, `{"partner_password":"s3cret"}`, `{"api_key":7}`,
	} {
		_, err := platforms.ParseCredential(t.Context(), "partnered", secret.New(text))
		var refusal *fault.Error
		if !errors.Is(err, fault.InvalidRequest) || !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Name != "api_key" {
			t.Errorf("%s: got %v, want invalid_request at the field api_key", text, err)
		}
		if strings.Contains(fmt.Sprintf("%+v %#v", err, refusal), "s3cret") {
			t.Errorf("the error quotes the text %s: %+v", text, refusal)
		}
	}
	if _, err := platforms.ParseCredential(t.Context(), "nowhere", secret.New("x")); !errors.Is(err, fault.UnknownProvider) || !strings.Contains(err.Error(), "The sending platforms are partnered.") {
		t.Errorf("got %v, want unknown_provider with the names of the platforms", err)
	}
}

// TestCapabilitiesDependOnFieldsAndSettings checks that capabilities depend on the plugin's
// description, the account's fields and the operator's settings.
func TestCapabilitiesDependOnFieldsAndSettings(t *testing.T) {
	for _, tc := range []struct {
		allowPasswords string
		accountFields  []string
		wantOAuth      bool
	}{
		{"", []string{"api_key", "partner_password"}, false},
		{"false", []string{"api_key", "partner_password"}, false},
		{"true", []string{"api_key"}, false},
		{"true", []string{"api_key", "partner_password"}, true},
		{"true", []string{"api_key", "partner_password", "allow_passwords"}, true},
		{"", []string{"api_key", "partner_password", "allow_passwords"}, false},
	} {
		platforms := describedPlatforms(map[string]map[string]string{"partnered": {"allow_passwords": tc.allowPasswords}}, partnerPlatform)
		got, err := platforms.Capabilities(t.Context(), "partnered", tc.accountFields)
		if want := (integration.Capabilities{OAuth: tc.wantOAuth, MailboxRefresh: true}); got != want || err != nil {
			t.Errorf("allow_passwords %q, account fields %v: got %+v, %v, want %+v", tc.allowPasswords, tc.accountFields, got, err, want)
		}
	}
	platforms := describedPlatforms(nil, partnerPlatform)
	if got, err := platforms.Capabilities(t.Context(), "nowhere", []string{"api_key"}); got != (integration.Capabilities{}) || err != nil {
		t.Errorf("the capabilities of a provider without a plugin are %+v, %v, want none", got, err)
	}
}

// TestOperatorSettingReplacesAuthHosts checks that the operator's auth hosts replace the plugin's
// defaults. A plugin without the field has no auth hosts.
func TestOperatorSettingReplacesAuthHosts(t *testing.T) {
	withHosts, withoutHosts := partnerPlatform, partnerPlatform
	withHosts.Name, withoutHosts.Name = "linking", "none"
	withHosts.Fields = append(slices.Clone(partnerPlatform.Fields), wire.Field{Name: wire.AuthHosts, Default: "login.example"})
	for hosts, want := range map[string]string{"": "[login.example]", "a.example:8443,  b.example": "[a.example:8443 b.example]"} {
		platforms := describedPlatforms(map[string]map[string]string{"linking": {wire.AuthHosts: hosts}, "none": {wire.AuthHosts: hosts}}, withHosts, withoutHosts)
		listed, err := platforms.Platforms(t.Context())
		if err != nil || len(listed) != 2 || fmt.Sprint(listed[0].AuthHosts) != want || len(listed[1].AuthHosts) != 0 {
			t.Errorf("auth hosts %q: got %v, %v, want %s for the plugin with the field, and none for the other plugin", hosts, listed, err, want)
		}
	}
}

func TestFaultDomainComesFromThePlugin(t *testing.T) {
	perCredential := partnerPlatform
	perCredential.Name, perCredential.FaultDomain = "instances", wire.FaultCredential
	platforms := describedPlatforms(nil, partnerPlatform, perCredential)
	for provider, want := range map[string]string{"partnered": "provider", "instances": "credential", "missing": "provider"} {
		if got := platforms.faultDomain(provider); got != want {
			t.Errorf("the fault domain of %s is %s, want %s", provider, got, want)
		}
	}
}
