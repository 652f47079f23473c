// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	wiredns "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// Flattened, proxied and automatic is said at the end of a record.
const flattened, shielded = " (flattened)", " (proxied)"

var messyCloudflare = []messy{
	{
		name: "cf-dkim-flattened", only: "cloudflare",
		past: "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft." + flattened,
		want: says{"dkim_selector1": "preserve dkim_flattened"},
	},
	{
		name: "cf-autodiscover-proxied", only: "cloudflare", past: "autodiscover 1 CNAME autodiscover.outlook.com." + shielded,
		want: says{"autodiscover": "conflict autodiscover_taken"}, hidden: true,
	},
	{name: "cf-website-proxied", only: "cloudflare", past: "@ 1 A 192.0.2.80" + shielded + "\nwww 1 CNAME web.elsewhere.test." + shielded},
	{name: "cf-alias-flattened", only: "cloudflare", past: "@ 300 CNAME web.elsewhere.test." + flattened + "\n@ 1 TXT something"},
	{name: "cf-automatic-ttl", only: "cloudflare", past: "@ 1 TXT something\n@ 1 MX 0 {d-}.r4nd.mx.microsoft.", want: says{"mx": "preserve present"}},
}

// cloud is Cloudflare's simulator, whose zones the sandbox's DNS serves.
type cloud struct {
	url    string
	store  *zones.Store
	dns    string
	reader ports.DNSReader
	plugin ports.DNSProvider
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	inner, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	handler = inner
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	if err != nil {
		t.Fatal(err)
	}
	served, err := zones.Listen(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	c := &cloud{url: server.URL, store: store, dns: served.Addr(),
		reader: dnsresolver.New(dnsresolver.Options{Resolvers: []string{served.Addr()}, Port: served.Port(), AllowPrivate: true}),
		plugin: plugged(t, "cloudflare", wire.Connection{
			Settings: ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(ready.Secrets["api_token"])},
		}),
	}
	for zone, records := range outsideZones {
		c.put(t, zone, linesOf(zone, records))
		c.publish(t, zone)
	}
	return c
}

func (c *cloud) provider() ports.DNSProvider { return c.plugin }

func (c *cloud) read(t testing.TB, m messy) dns.Sight {
	c.publish(t, m.zone())
	return sighted(t, c.reader, m)
}

func (c *cloud) put(t testing.TB, zone string, records []zoneLine) {
	t.Helper()
	list := []map[string]any{}
	for _, l := range records {
		content := strings.TrimSuffix(l.bare(), ".")
		r := map[string]any{"type": l.of, "name": l.name, "ttl": l.ttl}
		switch l.of {
		case dns.MX, "SRV":
			preference, rest, _ := strings.Cut(l.bare(), " ")
			r["priority"] = json.Number(preference)
			if content = strings.TrimSuffix(rest, "."); content == "" {
				content = "."
			}
		case dns.TXT:
			content = l.written()
		case dns.CNAME:
			r["settings"] = map[string]any{"flatten_cname": strings.HasSuffix(l.text, flattened)}
		}
		r["content"], r["proxied"] = content, strings.HasSuffix(l.text, shielded)
		list = append(list, r)
	}
	c.control(t, http.MethodPut, "/zones/"+zone, map[string]string{}, nil)
	c.control(t, http.MethodPut, "/zones/"+zone+"/records", list, nil)
}

// cloudRecord is a record as the API shows it.
type cloudRecord struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Priority *int   `json:"priority"`
	Proxied  bool   `json:"proxied"`
	Settings struct {
		Flatten bool `json:"flatten_cname"`
	} `json:"settings"`
}

func (c *cloud) held(t testing.TB, zone string) []entry {
	t.Helper()
	var all []json.RawMessage
	c.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &all)
	var out []entry
	for _, raw := range all {
		r := decodeRecord(t, raw)
		l := zoneLine{r.Name, r.TTL, dns.Type(r.Type), r.Content}
		if r.Priority != nil {
			l.text = fmt.Sprint(*r.Priority, " ", r.Content)
		}
		if l.of == "SRV" { // whose target has no final dot there
			l.text += "."
		}
		out = append(out, entry{l, string(raw)})
	}
	return out
}

func decodeRecord(t testing.TB, raw json.RawMessage) (r cloudRecord) {
	t.Helper()
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish makes the name servers answer as Cloudflare's do: a proxied record
// with addresses of its own, a flattened one with what its target has.
func (c *cloud) publish(t testing.TB, zone string) {
	t.Helper()
	var all []json.RawMessage
	c.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &all)
	var out []zones.Record
	for _, raw := range all {
		r := decodeRecord(t, raw)
		if r.TTL == 1 {
			r.TTL = 300
		}
		out = append(out, c.served(t, zone, r)...)
	}
	if err := c.store.Add(zone, "cloudflare"); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Replace(zone, out); err != nil {
		t.Fatal(zone, ": ", err)
	}
}

func (c *cloud) served(t testing.TB, zone string, r cloudRecord) []zones.Record {
	t.Helper()
	out := zones.Record{Type: r.Type, Name: r.Name, Content: r.Content, TTL: r.TTL, Priority: r.Priority}
	switch {
	case r.Proxied:
		out.Type, out.Content = "A", "192.0.2.99"
	case r.Type == "CNAME" && (r.Settings.Flatten || r.Name == zone):
		return c.flat(t, r)
	case r.Type == "TXT":
		text, err := sdk.UnquoteText(r.Content)
		if err != nil {
			t.Fatal(err)
		}
		out.Content = text
	}
	return []zones.Record{out}
}

// flat is what stands at a CNAME's target.
func (c *cloud) flat(t testing.TB, r cloudRecord) []zones.Record {
	t.Helper()
	var out []zones.Record
	tcp := wiredns.Client{Net: "tcp"}
	for _, of := range []uint16{wiredns.TypeTXT, wiredns.TypeA} {
		answer, _, err := tcp.Exchange(new(wiredns.Msg).SetQuestion(r.Content+".", of), c.dns)
		if err != nil {
			t.Fatal(err)
		}
		for _, rr := range answer.Answer {
			record := zones.Record{Type: wiredns.TypeToString[of], Name: r.Name, TTL: r.TTL}
			switch rr := rr.(type) {
			case *wiredns.TXT:
				record.Content = strings.Join(rr.Txt, "")
			case *wiredns.A:
				record.Content = rr.A.String()
			}
			out = append(out, record)
		}
	}
	return out
}

func (c *cloud) control(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || out != nil && json.Unmarshal(raw, out) != nil {
		t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, raw, err)
	}
}
