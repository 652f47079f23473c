// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"

	"github.com/tenantry/tenantry/plugins/template/go-dns/simulator"
)

// TestBinary builds the plugin, starts it as tenantry does, and runs the checks of a DNS provider.
// The provider is the simulator.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns-example")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, output)
	}
	binary := conformance.Binary{Path: path, Connect: func(baseURL string) sdk.Connection {
		return sdk.Connection{
			Settings: map[string]string{"api_url": baseURL}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret(simulator.Token)},
		}
	}}
	conformance.DNS(t, binary, func(t conformance.T, newProvider func(sdk.Connection) sdk.DNSProvider) conformance.DNSFixture {
		return conformance.SimulateDNS(t, simulator.New, newProvider)
	})
}

// TestApplyKeepsATTLOf0 adds a value to a set whose owner has chosen the TTL 0.
func TestApplyKeepsATTLOf0(t *testing.T) {
	env := newEnv(t)
	zone := env.NewZone(t)
	before := sdk.RRSet{Name: zone, Type: sdk.TXT, Values: []string{"of the owner"}}
	env.Put(t, zone, before)
	after := before
	after.Values = []string{"of the owner", "added"}
	provider := env.Provider()
	zoneInfo, err := provider.Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(env.Held(t, zone), zone, sdk.TXT); !held.Same(after) || held.TTL != 0 {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}

// TestFailuresHaveTheRightOutcome checks the outcome for several failures of the provider.
func TestFailuresHaveTheRightOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		fault simulate.Fault
		want  sdk.Outcome
	}{
		"the rate limit":            {simulate.Fault{Kind: simulate.Status, Status: http.StatusTooManyRequests, RetryAfter: 7}, sdk.Outcome{Kind: sdk.Throttled, RetryAfter: 7 * time.Second}},
		"out of service":            {simulate.Fault{Kind: simulate.Status, Status: http.StatusServiceUnavailable}, sdk.Outcome{Kind: sdk.Down}},
		"an internal error":         {simulate.Fault{Kind: simulate.Status, Status: http.StatusInternalServerError}, sdk.Outcome{Kind: sdk.Broken}},
		"a gateway gives up":        {simulate.Fault{Kind: simulate.Status, Status: http.StatusGatewayTimeout}, sdk.Outcome{Kind: sdk.Unknown}},
		"the answer is lost":        {simulate.Fault{Kind: simulate.DropAfter}, sdk.Outcome{Kind: sdk.Unknown}},
		"the page of a proxy":       {simulate.Fault{Kind: simulate.HTML}, sdk.Outcome{Kind: sdk.Broken}},
		"a proxy refuses the call":  {simulate.Fault{Kind: simulate.HTML, Status: http.StatusForbidden}, sdk.Outcome{Kind: sdk.Broken}},
		"JSON of a different shape": {simulate.Fault{Kind: simulate.WrongShape}, sdk.Outcome{Kind: sdk.Broken}},
		"half an answer":            {simulate.Fault{Kind: simulate.Truncate}, sdk.Outcome{Kind: sdk.Broken}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			zone := env.NewZone(t)
			provider := env.Provider()
			zoneInfo, err := provider.Zone(t.Context(), zone)
			if err != nil {
				t.Fatal(err)
			}
			tc.fault.Times = 10 // more than once, because net/http repeats a GET request after a lost connection
			env.Control(t, http.MethodPost, "/faults", tc.fault, nil)
			_, err = provider.Records(t.Context(), zoneInfo)
			if got := sdk.OutcomeOf(err); got.Kind != tc.want.Kind || got.RetryAfter.Round(time.Second) != tc.want.RetryAfter {
				t.Fatalf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestInvalidTokensAreRefused checks that the plugin refuses a token that is missing or not valid
// in an HTTP header.
func TestInvalidTokensAreRefused(t *testing.T) {
	for _, token := range []string{"", "a\nb", "k\x01", "日本"} {
		_, err := plugin().DNS(sdk.Connection{
			Settings: map[string]string{"api_url": "https://api.example.com"}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret(token)},
		})
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Cause != "setting api_token" {
			t.Errorf("%q: got %v, want a refusal with the cause of api_token", token, err)
		}
	}
}

// newEnv starts the simulator and returns an environment in which the plugin's code runs in this
// process.
func newEnv(t *testing.T) *conformance.DNSTest {
	t.Helper()
	p := plugin()
	return conformance.SimulateDNS(t, simulator.New, func(connection sdk.Connection) sdk.DNSProvider {
		provider, err := p.DNS(connection)
		if err != nil {
			t.Fatal(err)
		}
		return provider
	})
}
