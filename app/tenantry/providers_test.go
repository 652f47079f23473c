// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// catalogued are the DNS providers of a plugin folder, counting in counters.
func catalogued(t *testing.T, dir string, prints ports.Fingerprinter, counters ports.Limiter, provider map[string]map[string]string) *providers {
	t.Helper()
	host, err := pluginhost.New(pluginhost.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	p, err := newProviders(settings.Config{Providers: provider, CircuitOpen: time.Minute},
		providerOptions{host: host, counters: counters, prints: prints, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func token(text string) secret.Credential {
	return secret.Credential{Secrets: map[string]secret.Text{"api_token": secret.New(text)}}
}

func counting(t *testing.T) (ports.Fingerprinter, ports.Limiter) {
	t.Helper()
	prints, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset.json"), true)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := limiter.Open(t.Context(), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counters.Close() })
	return prints, counters
}

// TestDNSProvidersOfTheCatalog: all plugins of the kind are listed, one that
// does not run is left out, and one that is not there refuses its calls as
// down. Nothing of another kind is started.
func TestDNSProvidersOfTheCatalog(t *testing.T) {
	t.Parallel()
	prints, counters := counting(t)
	p := catalogued(t, pluginsBut(t, binary(t, release), "dns-powerdns"), prints, counters, nil)
	all, err := p.Providers(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "cloudflare" || all[0].Title != "Cloudflare" || len(all[0].NameServers) == 0 || all[1].ID != "rfc2136" {
		t.Errorf("got %v, %v", all, err)
	}
	for _, s := range p.host.Status() {
		if started := s.Starts > 0; started != (s.Name == "cloudflare" || s.Name == "rfc2136") {
			t.Errorf("%s was started: %v", s.Name, started)
		}
	}
	for _, missing := range []string{"powerdns", "nowhere"} {
		if _, err := p.For(missing, token("x")).Check(t.Context()); outcome.Of(err) != outcome.Down {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestDNSProviderAsAnAccountReachesIt: the plugin gets the operator's fields
// and the account's, each from whom it belongs to.
func TestDNSProviderAsAnAccountReachesIt(t *testing.T) {
	t.Parallel()
	prints, counters := counting(t)
	providerSettings := map[string]map[string]string{"cloudflare": {"api_url": cloudflareWith(t, "a.test"), "api_token_file": "/nonexistent"}}
	p := catalogued(t, filepath.Join(binary(t, release).folder, "plugins"), prints, counters, providerSettings)
	account := token("theirs")
	account.Settings = map[string]string{"api_url": "http://" + free(t)}
	reached := p.For("cloudflare", account)
	if n, err := reached.Check(t.Context()); n != 1 || err != nil {
		t.Errorf("%d zones, %v", n, err)
	}
	if z, err := reached.Zone(t.Context(), "a.test"); z.Name != "a.test" || err != nil {
		t.Errorf("%v, %v", z, err)
	}
	if _, err := reached.Zone(t.Context(), "b.test"); !dns.IsNoZone(err) {
		t.Errorf("another's zone: %v", err)
	}
	if _, err := p.For("cloudflare", secret.Credential{}).Check(t.Context()); outcome.Of(err) != outcome.Refused {
		t.Errorf("without a token: %v", err)
	}
	circuits := p.routes["cloudflare"].circuits.Circuits()
	if len(circuits) != 2 {
		t.Errorf("circuits of two credentials: %v", circuits)
	}
	for _, c := range circuits {
		if strings.Contains(c.Domain, "theirs") || !strings.HasPrefix(c.Domain, "credential/") {
			t.Errorf("a circuit is called %s", c.Domain)
		}
	}
}

// bucketNames notes the names of buckets.
type bucketNames struct {
	ports.Limiter
	keys map[string]int
}

func (c bucketNames) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	c.keys[b.Key]++
	return c.Limiter.Take(ctx, b)
}

// TestReplicasShareACredentialsBudget: two replicas and two accounts with one
// token count together, what a call costs, by a name that says nothing of it;
// what does not fit in is throttled before it leaves.
func TestReplicasShareACredentialsBudget(t *testing.T) {
	t.Parallel()
	prints, shared := counting(t)
	counters := bucketNames{shared, map[string]int{}}
	providerSettings := map[string]map[string]string{"cloudflare": {"api_url": cloudflareWith(t, "a.test")}}
	dir := filepath.Join(binary(t, release).folder, "plugins")
	one, other := catalogued(t, dir, prints, counters, providerSettings), catalogued(t, dir, prints, counters, providerSettings)
	for i, p := range []*providers{one, other} {
		if _, err := p.For("cloudflare", token("shared")).Check(t.Context()); err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
	}
	if len(counters.keys) != 1 {
		t.Fatalf("counted as %v", counters.keys)
	}
	for key, n := range counters.keys {
		if n != 6 || strings.Contains(key, "shared") || !strings.HasPrefix(key, "budget:cloudflare:credential:") {
			t.Errorf("%d counted as %s", n, key)
		}
		for range 1200 - 6 - 2 { // what other replicas asked meanwhile
			shared.Take(t.Context(), ratelimit.Bucket{Key: key, Limit: 1200, Window: 5 * time.Minute})
		}
	}
	_, err := one.For("cloudflare", token("shared")).Check(t.Context())
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter <= 0 || o.RetryAfter > 5*time.Minute {
		t.Errorf("three requests where two are left: %v", err)
	}
	for range 2 { // what was refused counts nothing
		if _, err := other.For("cloudflare", token("shared")).Zone(t.Context(), "a.test"); err != nil {
			t.Errorf("one request: %v", err)
		}
	}
	if _, err := other.For("cloudflare", token("shared")).Zone(t.Context(), "a.test"); outcome.Of(err) != outcome.Throttled {
		t.Errorf("one too many: %v", err)
	}
	if _, err := one.For("cloudflare", token("another")).Check(t.Context()); err != nil {
		t.Errorf("another token: %v", err)
	}
}
