// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// must ends the test if err is not nil.
var must = apptest.Must

// openTestProviders opens the DNS providers or the sending platforms of the plugin folder dir.
// Their calls are counted in counters.
func openTestProviders[P any](t *testing.T, open func(settings.Config, providerOptions) (P, error), dir string,
	fingerprinter ports.Fingerprinter, counters ports.Limiter, providerSettings map[string]map[string]string) P {
	t.Helper()
	host, err := pluginhost.New(pluginhost.Options{Dir: dir, Supervision: pluginhost.SupervisionPolicy{StartTimeout: apptest.HangTimeout}})
	must(t, err)
	t.Cleanup(host.Close)
	log := slog.New(slog.DiscardHandler)
	opened, err := open(settings.Config{Providers: providerSettings, CircuitOpen: time.Minute},
		providerOptions{host: host, counters: counters, fingerprinter: fingerprinter, log: log, files: &CredentialFiles{log: log}})
	must(t, err)
	return opened
}

// startPlugin starts a plugin. A call that starts its plugin must end within accountCallTimeout,
// which can be too short on a slow machine. A test therefore starts the plugin before its calls.
func startPlugin(t *testing.T, host *pluginhost.Host, name string) {
	t.Helper()
	_, err := host.Describe(t.Context(), name)
	must(t, err)
}

// listWhenReady calls list until its result is ready. On a slow machine, a plugin can take longer
// than startWait to start. A later list then has its description.
func listWhenReady[P any](t *testing.T, list func(context.Context) ([]P, error), isReady func([]P) bool) []P {
	t.Helper()
	for deadline := time.Now().Add(apptest.HangTimeout); ; time.Sleep(10 * time.Millisecond) {
		listed, err := list(t.Context())
		must(t, err)
		if isReady(listed) || time.Now().After(deadline) {
			return listed
		}
	}
}

// oneIsUndescribed reports whether exactly one provider lacks a description because its plugin has
// not started.
func oneIsUndescribed(listed []dns.Provider) bool {
	described := 0
	for _, provider := range listed {
		if !provider.Undescribed {
			described++
		}
	}
	return described == len(listed)-1
}

func tokenCredential(token string) secret.Credential {
	return secret.Credential{Secrets: map[string]secret.Text{"api_token": secret.New(token)}}
}

// newFingerprinterAndLimiter returns a fingerprinter with a new keyset and an in-memory limiter.
func newFingerprinterAndLimiter(t *testing.T) (ports.Fingerprinter, ports.Limiter) {
	t.Helper()
	fingerprinter, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset.json"), secrets.CreateMissing)
	must(t, err)
	counters, err := limiter.Open(t.Context(), limiter.Options{})
	must(t, err)
	t.Cleanup(func() { _ = counters.Close() })
	return fingerprinter, counters
}

// TestProvidersListsTheDNSPlugins checks that Providers lists the DNS plugins. A plugin that fails
// to start is undescribed. Providers starts no plugin of a different kind. Calls of a plugin that
// fails to start, or that does not exist, fail as outcome.Down.
func TestProvidersListsTheDNSPlugins(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	providers := openTestProviders(t, newDNSProviders, testserver.PluginsWithout(t, "dns-powerdns"), fingerprinter, counters, nil)
	listed := listWhenReady(t, providers.Providers, oneIsUndescribed)
	if len(listed) != 3 || listed[0].ID != "cloudflare" || listed[0].Title != "Cloudflare" || len(listed[0].NameServers) == 0 || listed[2].ID != "rfc2136" {
		t.Errorf("got %v, want cloudflare, powerdns and rfc2136", listed)
	}
	for _, provider := range listed {
		if provider.Undescribed != (provider.ID == "powerdns") {
			t.Errorf("got %+v, want only powerdns undescribed", provider)
		}
	}
	for _, plugin := range providers.Host.Status() {
		if started := plugin.Starts > 0; started != (plugin.Name == "cloudflare" || plugin.Name == "rfc2136") {
			t.Errorf("the plugin %s was started: %v, want only cloudflare and rfc2136 started", plugin.Name, started)
		}
	}
	for _, missing := range []string{"powerdns", "nowhere"} {
		if _, err := providers.For(missing, tokenCredential("x")).Check(t.Context()); outcome.KindOf(err) != outcome.Down {
			t.Errorf("a call of %s: %v, want an error of the kind down", missing, err)
		}
	}
}

// TestSandboxServersDetectAProvider checks that the sandbox's name servers identify a provider, in
// addition to the name-server patterns of its plugin. A provider whose plugin has no patterns is
// identified by no name server, because the customers of the provider choose the names of their
// servers.
func TestSandboxServersDetectAProvider(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	providers := openTestProviders(t, newDNSProviders, testserver.PluginsWithout(t, "dns-rfc2136"), fingerprinter, counters, nil)
	providers.nameServers = func(provider string) []string { return []string{"ns1." + provider + ".sandbox.test"} }
	listed := listWhenReady(t, providers.Providers, oneIsUndescribed)
	if len(listed) != 3 || listed[1].ID != "powerdns" || len(listed[1].NameServers) != 0 {
		t.Fatalf("got %v, want three providers, and no name servers of powerdns", listed)
	}
	for _, server := range []string{"ns1.cloudflare.sandbox.test", "ada.ns.cloudflare.com"} {
		if found := dns.Detect(dns.ZoneRead{Delegation: []string{server}}, listed); found.Provider.ID != "cloudflare" {
			t.Errorf("%s: got %+v, want cloudflare", server, found)
		}
	}
}

// TestDNSPluginGetsEachFieldFromItsOwner checks that a plugin receives operator fields only from
// the operator and account fields only from the account. The name of a circuit does not contain the
// credential.
func TestDNSPluginGetsEachFieldFromItsOwner(t *testing.T) {
	t.Parallel()
	fingerprinter, counters := newFingerprinterAndLimiter(t)
	providerSettings := map[string]map[string]string{"cloudflare": {"api_url": testserver.StartCloudflare(t, "a.test"), "api_token_file": "/nonexistent"}}
	providers := openTestProviders(t, newDNSProviders, testserver.Program(t, "release/plugins"), fingerprinter, counters, providerSettings)
	startPlugin(t, providers.Host, "cloudflare")
	account := tokenCredential("account-key")
	account.Settings = map[string]string{"api_url": "http://" + testserver.FreeAddress(t)}
	accountProvider := providers.For("cloudflare", account)
	if n, err := accountProvider.Check(t.Context()); n != 1 || err != nil {
		t.Errorf("Check returned %d zones, %v, want 1", n, err)
	}
	if zone, err := accountProvider.Zone(t.Context(), "a.test"); zone.Name != "a.test" || err != nil {
		t.Errorf("%v, %v, want the zone a.test", zone, err)
	}
	if _, err := accountProvider.Zone(t.Context(), "b.test"); !dns.IsNoZone(err) {
		t.Errorf("a zone that the account does not have: %v, want that no zone was found", err)
	}
	if _, err := providers.For("cloudflare", secret.Credential{}).Check(t.Context()); outcome.KindOf(err) != outcome.Refused {
		t.Errorf("without a token: %v, want a refusal", err)
	}
	circuits := providers.chains["cloudflare"].circuits.Circuits()
	if len(circuits) != 2 {
		t.Errorf("the circuits are %v, want one for each of two credentials", circuits)
	}
	for _, circuit := range circuits {
		if strings.Contains(circuit.Domain, "account-key") || !strings.HasPrefix(circuit.Domain, "credential/") {
			t.Errorf("a circuit is named %s, want credential/ and no credential", circuit.Domain)
		}
	}
}

// TestCommandsReadTheCredentialFilesOfDNSPlugins checks that OpenDNSProviders, which the operator's
// commands use, reads the file of a secret that the operator sets.
func TestCommandsReadTheCredentialFilesOfDNSPlugins(t *testing.T) {
	t.Parallel()
	fingerprinter, _ := newFingerprinterAndLimiter(t)
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte("canary"), 0o600))
	config := settings.Config{PluginDir: testserver.Program(t, "release/plugins"), Providers: map[string]map[string]string{"test": {"api_key_file": path}}}
	providers, closeAll, err := OpenDNSProviders(t.Context(), config, fingerprinter, slog.New(slog.DiscardHandler))
	must(t, err)
	defer func() { must(t, closeAll()) }()
	providers.operator.Describe = func(context.Context, string) (wire.Description, error) {
		return wire.Description{Kind: wire.KindDNS, Fields: []wire.Field{{Name: "api_key", Secret: true}}}, nil
	}
	connection, err := providers.operator.OperatorConnection(t.Context(), "test")
	if key := connection.Secrets["api_key"]; err != nil || key.Reveal() != "canary" {
		t.Errorf("the connection has the secrets %v, %v, want the content of the file", connection.Secrets, err)
	}
}

// takeCounter counts the calls of Take by bucket key.
type takeCounter struct {
	ports.Limiter
	takes map[string]int
}

func (c takeCounter) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	c.takes[b.Key]++
	return c.Limiter.Take(ctx, b)
}

// TestReplicasShareCredentialBudget checks that two replicas count the requests of calls with the
// same token in the same bucket. The key of the bucket does not reveal the token. A call that
// exceeds the budget is throttled and uses up nothing. The budget of Cloudflare's plugin is 1,200
// requests in five minutes. Check counts as three requests, and Zone as one.
func TestReplicasShareCredentialBudget(t *testing.T) {
	t.Parallel()
	fingerprinter, shared := newFingerprinterAndLimiter(t)
	counters := takeCounter{shared, map[string]int{}}
	providerSettings := map[string]map[string]string{"cloudflare": {"api_url": testserver.StartCloudflare(t, "a.test")}}
	dir := testserver.Program(t, "release/plugins")
	firstReplica, secondReplica := openTestProviders(t, newDNSProviders, dir, fingerprinter, counters, providerSettings), openTestProviders(t, newDNSProviders, dir, fingerprinter, counters, providerSettings)
	for i, replica := range []*DNSProviders{firstReplica, secondReplica} {
		startPlugin(t, replica.Host, "cloudflare")
		if _, err := replica.For("cloudflare", tokenCredential("shared")).Check(t.Context()); err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
	}
	if len(counters.takes) != 1 {
		t.Fatalf("the calls are counted in the buckets %v, want one bucket", counters.takes)
	}
	for key, takes := range counters.takes {
		if takes != 6 || strings.Contains(key, "shared") || !strings.HasPrefix(key, "budget:cloudflare:credential:") {
			t.Errorf("%d requests in the bucket %s, want 6 in a bucket of the credential without its token", takes, key)
		}
		for range 1200 - 6 - 2 { // requests of other replicas, until two requests are left
			shared.Take(t.Context(), ratelimit.Bucket{Key: key, Limit: 1200, Window: 5 * time.Minute})
		}
	}
	_, err := firstReplica.For("cloudflare", tokenCredential("shared")).Check(t.Context())
	var throttled *outcome.Error
	if !errors.As(err, &throttled) || throttled.Kind != outcome.Throttled || throttled.RetryAfter <= 0 || throttled.RetryAfter > 5*time.Minute {
		t.Errorf("a call of three requests with a remaining budget of two: %v, want it throttled", err)
	}
	for range 2 { // the throttled call used up nothing
		if _, err := secondReplica.For("cloudflare", tokenCredential("shared")).Zone(t.Context(), "a.test"); err != nil {
			t.Errorf("a call of one request within the budget: %v", err)
		}
	}
	if _, err := secondReplica.For("cloudflare", tokenCredential("shared")).Zone(t.Context(), "a.test"); outcome.KindOf(err) != outcome.Throttled {
		t.Errorf("a call above the budget: %v, want it throttled", err)
	}
	if _, err := firstReplica.For("cloudflare", tokenCredential("another")).Check(t.Context()); err != nil {
		t.Errorf("a call with a different token: %v, want it not throttled", err)
	}
}
