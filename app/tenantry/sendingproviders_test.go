// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// cataloguedSending are the sending platforms of a plugin folder, as catalogued.
func cataloguedSending(t *testing.T, dir string, prints ports.Fingerprinter, counters ports.Limiter, provider map[string]map[string]string) *sendingProviders {
	t.Helper()
	host, err := pluginhost.New(pluginhost.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	p, err := newSendingProviders(settings.Config{Providers: provider, CircuitOpen: time.Minute},
		providerOptions{host: host, counters: counters, prints: prints, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// instantlyWith answers as Instantly does to one key, and counts the calls.
func instantlyWith(t *testing.T, key string) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+key):
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(object{"statusCode": 401, "error": "Unauthorized", "message": "Invalid API key"})
		case strings.HasSuffix(r.URL.Path, "/workspaces/current"):
			_ = json.NewEncoder(w).Encode(object{"id": "01890000-0000-7000-8000-000000000001", "name": "One"})
		default:
			_ = json.NewEncoder(w).Encode(object{"session_id": "s-1", "auth_url": "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=1",
				"expires_at": time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339Nano)})
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func apiKey(text string) secret.Credential {
	return secret.Credential{Secrets: map[string]secret.Text{"api_key": secret.New(text)}}
}

// TestSendingPlatformsOfTheCatalog: all plugins of the kind are listed, with
// the hosts that the operator allows; one that does not run is left out, and
// one that is not there refuses its calls as down. Nothing of another kind is
// started.
func TestSendingPlatformsOfTheCatalog(t *testing.T) {
	t.Parallel()
	prints, counters := counting(t)
	providerSettings := map[string]map[string]string{"instantly": {"auth_hosts": "login.microsoftonline.us, proxy.example:8443"}}
	p := cataloguedSending(t, pluginsBut(t, binary(t, release), "sending-plusvibe"), prints, counters, providerSettings)
	all, err := p.Platforms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, of := range all {
		ids = append(ids, of.ID)
		if of.ID == "instantly" && (of.Title != "Instantly" || !slices.Equal(of.AuthHosts, []string{"login.microsoftonline.us", "proxy.example:8443"})) {
			t.Errorf("got %+v", of)
		}
	}
	if !slices.IsSorted(ids) || !slices.Contains(ids, "instantly") || !slices.Contains(ids, "smartlead") || slices.Contains(ids, "plusvibe") {
		t.Errorf("listed are %v", ids)
	}
	for _, s := range p.host.Status() {
		if started := s.Starts > 0; started != slices.Contains(ids, s.Name) {
			t.Errorf("%s was started: %v", s.Name, started)
		}
	}
	for _, missing := range []string{"plusvibe", "nowhere"} {
		if _, err := p.For(missing, apiKey("x")).Check(t.Context()); outcome.Of(err) != outcome.Down {
			t.Errorf("%s: %v", missing, err)
		}
		if can := p.Capabilities(t.Context(), missing, []string{"api_key"}); can != (integration.Capabilities{}) {
			t.Errorf("%s can %+v", missing, can)
		}
		if _, err := p.Read(t.Context(), missing, secret.New("x")); err == nil {
			t.Errorf("%s: a credential is read", missing)
		}
	}
}

// TestSendingPlatformAsAnAccountReachesIt: the plugin gets the operator's
// fields and the account's, each from whom it belongs to, and one customer's
// bad key stops nobody.
func TestSendingPlatformAsAnAccountReachesIt(t *testing.T) {
	t.Parallel()
	prints, counters := counting(t)
	url, _ := instantlyWith(t, "theirs")
	providerSettings := map[string]map[string]string{"instantly": {"base_url": url, "api_key": "operators"}}
	p := cataloguedSending(t, filepath.Join(binary(t, release).folder, "plugins"), prints, counters, providerSettings)
	account := apiKey("theirs")
	account.Settings = map[string]string{"base_url": "http://" + free(t), "workspace_id": "01890000-0000-7000-8000-000000000001"}
	reach, err := p.For("instantly", account).Check(t.Context())
	if err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].Name != "One" {
		t.Errorf("%+v, %v", reach, err)
	}
	for _, bad := range []secret.Credential{apiKey("guessed"), {}} {
		for range 6 {
			if _, err := p.For("instantly", bad).Check(t.Context()); outcome.Of(err) != outcome.Refused || strings.Contains(err.Error(), "guessed") {
				t.Errorf("a bad key: %v", err)
			}
		}
	}
	if _, err := p.For("instantly", account).StartSignIn(t.Context(), "anna@a.test"); err != nil {
		t.Errorf("after others' bad keys: %v", err)
	}
	if circuits := p.routes["instantly"].circuits.Circuits(); len(circuits) != 1 || circuits[0].Domain != "provider" {
		t.Errorf("circuits: %v", circuits)
	}
}

// TestReplicasShareASendingBudget: two replicas, and integrations of one key in
// two workspaces, count together, each operation in the budgets that are meant
// for it, by names that say nothing of the key. What does not fit in is
// throttled before it leaves, and told when it would.
func TestReplicasShareASendingBudget(t *testing.T) {
	t.Parallel()
	prints, limits := counting(t)
	counters := bucketNames{limits, map[string]int{}}
	url, calls := instantlyWith(t, "key-")
	providerSettings := map[string]map[string]string{"instantly": {"base_url": url}}
	dir := filepath.Join(binary(t, release).folder, "plugins")
	replicas := []*sendingProviders{
		cataloguedSending(t, dir, prints, counters, providerSettings), cataloguedSending(t, dir, prints, counters, providerSettings),
	}
	for i, p := range replicas {
		in := apiKey("key-one")
		in.Settings = map[string]string{"workspace_id": string(rune('a' + i))}
		if _, err := p.For("instantly", in).StartSignIn(t.Context(), "anna@a.test"); err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
		if _, err := p.For("instantly", in).Check(t.Context()); outcome.Of(err) != 0 && outcome.Of(err) != outcome.Refused {
			t.Fatalf("replica %d: %v", i, err)
		}
	}
	begins := map[string]string{} // the buckets of starts, by their key
	for key, n := range counters.keys {
		if strings.Contains(key, "key-one") || !strings.HasPrefix(key, "budget:instantly:") {
			t.Errorf("counted as %s", key)
		}
		if strings.HasSuffix(key, ":start_sign_in") {
			begins[strings.Split(key, ":")[2]] = key
			if n != 2 {
				t.Errorf("%d starts counted as %s", n, key)
			}
		}
	}
	if len(begins) != 2 {
		t.Fatalf("starts are counted as %v, all as %v", begins, slices.Sorted(maps.Keys(counters.keys)))
	}
	throttled := func(p *sendingProviders, key, why string) {
		t.Helper()
		before := calls.Load()
		_, err := p.For("instantly", apiKey(key)).StartSignIn(t.Context(), "anna@a.test")
		var o *outcome.Error
		if !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter <= 0 || o.RetryAfter > time.Minute || calls.Load() != before {
			t.Errorf("%s: %v after %d calls", why, err, calls.Load()-before)
		}
	}
	for range 75 - 2 { // what other replicas began meanwhile
		limits.Take(t.Context(), ratelimit.Bucket{Key: begins["credential"], Limit: 75, Window: time.Minute})
	}
	throttled(replicas[0], "key-one", "the credential's budget")
	if _, err := replicas[0].For("instantly", apiKey("key-one")).Check(t.Context()); err != nil {
		t.Errorf("what counts elsewhere: %v", err)
	}
	if _, err := replicas[1].For("instantly", apiKey("key-two")).StartSignIn(t.Context(), "anna@a.test"); err != nil {
		t.Errorf("another credential: %v", err)
	}
	for range 120 - 3 {
		limits.Take(t.Context(), ratelimit.Bucket{Key: begins["egress"], Limit: 120, Window: time.Minute})
	}
	throttled(replicas[1], "key-three", "the budget of all credentials together")
}
