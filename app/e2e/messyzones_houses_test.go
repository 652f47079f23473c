// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// house holds zones: a DNS provider, its plugin and the world's view of it.
type house interface {
	// put makes a zone hold exactly these records, by the owner's hand.
	put(t testing.TB, zone string, records []zoneLine)
	// held are a zone's records as the provider's own API words them.
	held(t testing.TB, zone string) []entry
	// read is what the world sees, from the authoritative servers.
	read(t testing.TB, m messy) dns.Sight
	provider() ports.DNSProvider
}

// entry is a record at a provider: in our words and in its own.
type entry struct {
	zoneLine
	raw string
}

// plugged is a provider's plugin in a process of its own.
func plugged(t testing.TB, name string, c wire.Connection) ports.DNSProvider {
	t.Helper()
	built, err := release()
	if err != nil {
		t.Fatal(err)
	}
	host, err := pluginhost.New(pluginhost.Options{Dir: filepath.Join(built.folder, "plugins"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return host.DNS(name, func(context.Context) (wire.Connection, error) { return c, nil })
}

// power is a real PowerDNS. It is the resolver too, for what it knows.
type power struct {
	server *testserver.PowerDNS
	reader ports.DNSReader
	plugin ports.DNSProvider
}

func newPower(t testing.TB) *power {
	t.Helper()
	server, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	p := &power{server: server}
	p.reader = dnsresolver.New(dnsresolver.Options{Resolvers: []string{server.DNS}, Port: p.port(), AllowPrivate: true})
	p.plugin = plugged(t, "powerdns", wire.Connection{
		Settings: map[string]string{"api_url": server.API, "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New(server.Key)},
	})
	for _, above := range []string{"test", "messy.test"} { // which have no policy
		p.put(t, above, nil)
	}
	p.put(t, "hosting.test", linesOf("hosting.test", "ns1 300 A 127.0.0.1\nns2 300 A 127.0.0.2"))
	for _, world := range []map[string]string{outsideZones, platformZones} {
		for zone, records := range world {
			p.put(t, zone, linesOf(zone, records))
		}
	}
	return p
}

// port is that of the name server, on both of its addresses.
func (p *power) port() (port int) {
	_, _ = fmt.Sscanf(p.server.DNS, "127.0.0.1:%d", &port)
	return port
}

func (p *power) provider() ports.DNSProvider { return p.plugin }

func (p *power) read(t testing.TB, m messy) dns.Sight { return sighted(t, p.reader, m) }

func sighted(t testing.TB, reader ports.DNSReader, m messy) dns.Sight {
	t.Helper()
	sight, err := reader.Read(t.Context(), m.domain(), dns.Desire(m.domain(), m.offer())...)
	if err != nil {
		t.Fatal(err)
	}
	return sight
}

func (p *power) put(t testing.TB, zone string, records []zoneLine) {
	t.Helper()
	var sets []map[string]any
	at := map[string]int{}
	for _, l := range records {
		i, ok := at[l.place()]
		if !ok {
			i = len(sets)
			at[l.place()] = i
			sets = append(sets, map[string]any{"name": l.name + ".", "type": l.of, "ttl": l.ttl, "records": []any{}})
		}
		sets[i]["records"] = append(sets[i]["records"].([]any), map[string]any{"content": l.written()})
	}
	p.ask(t, http.MethodDelete, "/"+zone+".", nil)
	p.ask(t, http.MethodPost, "", map[string]any{
		"name": zone + ".", "kind": "Native", "nameservers": []string{"ns1.hosting.test.", "ns2.hosting.test."}, "rrsets": sets,
	})
}

// written is a record's content as zone files have it.
func (l zoneLine) written() string {
	if l.of == dns.TXT && !strings.HasPrefix(l.text, `"`) {
		return sdk.QuoteText(l.text)
	}
	return l.text
}

func (p *power) held(t testing.TB, zone string) []entry {
	t.Helper()
	var doc struct {
		RRSets []struct {
			Name    string            `json:"name"`
			Type    dns.Type          `json:"type"`
			TTL     int               `json:"ttl"`
			Records []json.RawMessage `json:"records"`
		} `json:"rrsets"`
	}
	if err := json.Unmarshal(p.ask(t, http.MethodGet, "/"+zone+".", nil), &doc); err != nil {
		t.Fatal(err)
	}
	var out []entry
	for _, set := range doc.RRSets {
		if set.Name == zone+"." && (set.Type == dns.SOA || set.Type == dns.NS) {
			continue
		}
		for _, raw := range set.Records {
			var record struct {
				Content string `json:"content"`
			}
			if err := json.Unmarshal(raw, &record); err != nil {
				t.Fatal(err)
			}
			l := zoneLine{strings.TrimSuffix(set.Name, "."), set.TTL, set.Type, record.Content}
			out = append(out, entry{l, fmt.Sprint(set.Name, " ", set.Type, " ", set.TTL, " ", string(raw))})
		}
	}
	return out
}

// ask calls the server's API, past the plugin.
func (p *power) ask(t testing.TB, method, path string, in any) []byte {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.server.API+"/api/v1/servers/localhost/zones"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", p.server.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	absent := method == http.MethodDelete && answer.StatusCode == http.StatusNotFound
	if err != nil || answer.StatusCode >= http.StatusMultipleChoices && !absent {
		t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, raw, err)
	}
	return raw
}
