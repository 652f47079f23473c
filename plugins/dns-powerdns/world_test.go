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
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// hang is a timeout that only a server that never answers reaches, however slow
// the machine is.
const hang = 4 * time.Minute

// patientHouse returns a house whose calls time out after hang.
func patientHouse() *house {
	h := newHouse()
	h.guarded.Timeout, h.open.Timeout = hang, hang
	return h
}

// world is a real server behind a proxy that loses what it is told to.
type world struct {
	server *testserver.PowerDNS
	make   func(sdk.Connection) (sdk.DNSProvider, error)
	proxy  *httptest.Server
	lose   atomic.Int64 // a contract.Failure for the next PATCH
	fail   atomic.Int64 // a status for the next PATCH
	serial atomic.Int64
	calls  atomic.Int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	server, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	to, err := url.Parse(server.API)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{server: server, make: patientHouse().provider}
	w.proxy = httptest.NewServer(w.between(httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(w.proxy.Close)
	return w
}

func (w *world) between(server http.Handler) http.Handler {
	return http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		w.calls.Add(1)
		how := contract.Failure(0)
		if r.Method == http.MethodPatch {
			how = contract.Failure(w.lose.Swap(0))
			if status := w.fail.Swap(0); status != 0 {
				a.WriteHeader(int(status))
				return
			}
		}
		switch how {
		case contract.LosesRequest:
			panic(http.ErrAbortHandler)
		case contract.LosesAnswer:
			server.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			server.ServeHTTP(a, r)
		}
	})
}

func (w *world) connection(key string) sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{"api_url": w.proxy.URL + "/", "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New(key)},
	}
}

func (w *world) with(key string) sdk.DNSProvider {
	p, err := w.make(w.connection(key))
	if err != nil {
		panic(err)
	}
	return p
}

func (w *world) Provider() sdk.DNSProvider { return w.with(w.server.Key) }

func (w *world) Refused() sdk.DNSProvider { return w.with("guessed") }

func (w *world) NewZone(t testing.TB) string {
	zone := fmt.Sprintf("zone-%d.test", w.serial.Add(1))
	w.ask(t, http.MethodPost, "/zones", map[string]any{
		"name": zone + ".", "kind": "Native", "nameservers": []string{"ns1.provider.example.", "ns2.provider.example."},
	})
	return zone
}

func (w *world) Put(t testing.TB, zone string, s dns.RRSet) {
	records := []map[string]any{}
	for _, v := range s.Values {
		records = append(records, map[string]any{"content": sdk.WriteContent(s.Type, v)})
	}
	w.patch(t, zone, map[string]any{"name": s.Name + ".", "type": s.Type, "ttl": s.TTL, "changetype": "REPLACE", "records": records})
}

func (w *world) patch(t testing.TB, zone string, set map[string]any) {
	t.Helper()
	w.ask(t, http.MethodPatch, "/zones/"+zone+".", map[string]any{"rrsets": []any{set}})
}

func (w *world) Lose(_ testing.TB, how contract.Failure) { w.lose.Store(int64(how)) }

// ask calls the server itself, past proxy and adapter.
func (w *world) ask(t testing.TB, method, path string, in any) []byte {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.server.API+"/api/v1/servers/localhost"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", w.server.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, answer, err)
	}
	return answer
}

// Held transfers the zone over DNS.
func (w *world) Held(t testing.TB, zone string) []dns.RRSet {
	t.Helper()
	in, err := (&wire.Transfer{DialTimeout: hang, ReadTimeout: hang, WriteTimeout: hang}).In(new(wire.Msg).SetAxfr(zone+"."), w.server.DNS)
	if err != nil {
		t.Fatal(err)
	}
	var sets []dns.RRSet
	for part := range in {
		if part.Error != nil {
			t.Fatal(part.Error)
		}
		for _, rr := range part.RR {
			h := rr.Header()
			if name := strings.TrimSuffix(h.Name, "."); h.Rrtype != wire.TypeSOA && (h.Rrtype != wire.TypeNS || name != zone) {
				sets = hold(sets, name, rr)
			}
		}
	}
	return sets
}

func hold(sets []dns.RRSet, name string, rr wire.RR) []dns.RRSet {
	h := rr.Header()
	value := strings.TrimSuffix(strings.TrimPrefix(rr.String(), h.String()), ".")
	if text, ok := rr.(*wire.TXT); ok {
		value, _ = sdk.UnquoteText(`"` + strings.Join(text.Txt, "") + `"`)
	}
	for i := range sets {
		if sets[i].Name == name && sets[i].Type == dns.Type(wire.TypeToString[h.Rrtype]) {
			sets[i].Values = append(sets[i].Values, value)
			return sets
		}
	}
	return append(sets, dns.RRSet{Name: name, Type: dns.Type(wire.TypeToString[h.Rrtype]), TTL: int(h.Ttl), Values: []string{value}})
}
