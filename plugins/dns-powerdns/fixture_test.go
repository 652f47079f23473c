// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// testTimeout is long enough for a slow machine. A call exceeds it only if a server never answers.
const testTimeout = 4 * time.Minute

// newTestState returns a processState whose calls time out after testTimeout.
func newTestState() *processState {
	state := newProcessState()
	state.guarded.Timeout, state.unguarded.Timeout = testTimeout, testTimeout
	return state
}

// fixture is a real PowerDNS server behind a proxy that can lose requests and answers. fixture
// implements conformance.DNSFixture.
type fixture struct {
	server       *testserver.PowerDNS
	newProvider  func(sdk.Connection) (sdk.DNSProvider, error)
	proxy        *httptest.Server
	nextFailure  atomic.Int64           // a conformance.Failure for the next PATCH
	nextStatus   atomic.Int64           // the status of the proxy's answer to the next PATCH
	beforePatch  atomic.Pointer[func()] // runs before the next PATCH reaches the server
	beforeCall   atomic.Pointer[func()] // runs before each request reaches the server
	patches      atomic.Int64           // number of PATCH requests of the plugin
	zonesCreated atomic.Int64
	calls        atomic.Int64 // number of requests of the plugin
}

func newFixture(t conformance.T) *fixture {
	t.Helper()
	server, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	target, err := url.Parse(server.API)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{server: server, newProvider: newTestState().provider}
	f.proxy = httptest.NewServer(f.proxyHandler(httputil.NewSingleHostReverseProxy(target)))
	t.Cleanup(f.proxy.Close)
	return f
}

// proxyHandler returns a handler that passes requests to the server and applies the planned
// failures.
func (f *fixture) proxyHandler(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		if hook := f.beforeCall.Load(); hook != nil {
			(*hook)()
		}
		failure := conformance.Failure(0)
		if r.Method == http.MethodPatch {
			f.patches.Add(1)
			failure = conformance.Failure(f.nextFailure.Swap(0))
			if hook := f.beforePatch.Swap(nil); hook != nil {
				(*hook)()
			}
			if status := f.nextStatus.Swap(0); status != 0 {
				w.WriteHeader(int(status))
				return
			}
		}
		switch failure {
		case conformance.LosesRequest:
			panic(http.ErrAbortHandler)
		case conformance.LosesAnswer:
			server.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			server.ServeHTTP(w, r)
		}
	})
}

func (f *fixture) connection(key string) sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{"api_url": f.proxy.URL + "/", "allow_private": "true"},
		Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret(key)},
	}
}

func (f *fixture) providerWithKey(key string) sdk.DNSProvider {
	provider, err := f.newProvider(f.connection(key))
	if err != nil {
		panic(err)
	}
	return provider
}

func (f *fixture) Provider() sdk.DNSProvider { return f.providerWithKey(f.server.Key) }

// Refused returns a provider with a key that the server rejects.
func (f *fixture) Refused() sdk.DNSProvider { return f.providerWithKey("guessed") }

func (f *fixture) NewZone(t conformance.T) string {
	zone := fmt.Sprintf("zone-%d.test", f.zonesCreated.Add(1))
	f.callServer(t, http.MethodPost, "/zones", map[string]any{
		"name": zone + ".", "kind": "Native", "nameservers": []string{"ns1.provider.example.", "ns2.provider.example."},
	})
	return zone
}

func (f *fixture) Put(t conformance.T, zone string, s sdk.RRSet) { f.putSet(t, zone, s, false) }

// putSet writes the set s, and replaces the values that the server has. If disabled is true, the
// records of s are disabled: the server stores them, but does not serve them.
func (f *fixture) putSet(t conformance.T, zone string, s sdk.RRSet, disabled bool) {
	t.Helper()
	records := []map[string]any{}
	for _, v := range s.Values {
		records = append(records, map[string]any{"content": sdk.WriteContent(s.Type, v), "disabled": disabled})
	}
	f.replaceSet(t, zone, map[string]any{"name": s.Name + ".", "type": s.Type, "ttl": s.TTL, "changetype": "REPLACE", "records": records})
}

func (f *fixture) replaceSet(t conformance.T, zone string, set map[string]any) {
	t.Helper()
	f.callServer(t, http.MethodPatch, "/zones/"+zone+".", map[string]any{"rrsets": []any{set}})
}

// storedZone returns a zone as the server stores it, with its disabled records.
func (f *fixture) storedZone(t conformance.T, zone string) (stored zoneDoc) {
	t.Helper()
	if err := json.Unmarshal(f.callServer(t, http.MethodGet, "/zones/"+zone+".", nil), &stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

func (f *fixture) Lose(_ conformance.T, failure conformance.Failure) {
	f.nextFailure.Store(int64(failure))
}

// callServer calls the API of the server directly, without the proxy and the plugin.
func (f *fixture) callServer(t conformance.T, method, path string, in any) []byte {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, f.server.API+"/api/v1/servers/localhost"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", f.server.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: status %d, answer %s, %v, want a success", method, path, resp.StatusCode, answer, err)
	}
	return answer
}

// Held reads the zone by a zone transfer. It omits the SOA set and the zone's own NS set.
func (f *fixture) Held(t conformance.T, zone string) []sdk.RRSet {
	t.Helper()
	parts, err := (&wire.Transfer{DialTimeout: testTimeout, ReadTimeout: testTimeout, WriteTimeout: testTimeout}).In(new(wire.Msg).SetAxfr(zone+"."), f.server.DNS)
	if err != nil {
		t.Fatal(err)
	}
	var held []simulate.Record
	for part := range parts {
		if part.Error != nil {
			t.Fatal(part.Error)
		}
		for _, rr := range part.RR {
			header := rr.Header()
			if name := strings.TrimSuffix(header.Name, "."); header.Rrtype != wire.TypeSOA && (header.Rrtype != wire.TypeNS || name != zone) {
				held = append(held, simulate.Record{Type: wire.TypeToString[header.Rrtype], Name: name, Content: valueOf(rr), TTL: int(header.Ttl)})
			}
		}
	}
	return simulate.SetsOf(held)
}

// valueOf returns the content of a record in the format of sdk.RRSet.
func valueOf(rr wire.RR) string {
	value := strings.TrimSuffix(strings.TrimPrefix(rr.String(), rr.Header().String()), ".")
	if text, ok := rr.(*wire.TXT); ok {
		value, _ = sdk.UnquoteText(`"` + strings.Join(text.Txt, "") + `"`)
	}
	return value
}
