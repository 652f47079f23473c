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
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wiredns "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// zoneHost is a DNS provider in a test. It gives access to the provider's records, to its plugin,
// and to the DNS answers for its zones.
type zoneHost interface {
	// replaceRecords replaces the records of a zone directly at the provider.
	replaceRecords(t testing.TB, zone string, records []zoneLine)
	// storedRecords returns the records that the provider has for a zone, without the SOA and the
	// NS records of the apex.
	storedRecords(t testing.TB, zone string) []storedRecord
	// readDNS asks the authoritative servers for the records that the DNS plan of the case's domain
	// compares.
	readDNS(t testing.TB, c zoneCase) dns.ZoneRead
	provider() ports.DNSProvider
}

// storedRecord is a record at a provider, parsed and in the provider's format.
type storedRecord struct {
	zoneLine
	raw string
}

// newDNSPlugin returns a provider's plugin. The first call of a method starts the plugin's process,
// and the end of the test stops the process.
func newDNSPlugin(t testing.TB, name string, c wire.Connection) ports.DNSProvider {
	t.Helper()
	built, err := releaseBuild()
	must(t, err)
	host, err := pluginhost.New(pluginhost.Options{Dir: filepath.Join(built.folder, "plugins"), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(host.Close)
	return host.DNS(name, func(context.Context) (wire.Connection, error) { return c, nil })
}

// powerDNSHost is a real PowerDNS server. It is also the resolver for the zones that it hosts.
type powerDNSHost struct {
	server *testserver.PowerDNS
	reader ports.DNSReader
	plugin ports.DNSProvider
}

// newPowerDNSHost starts PowerDNS with the zones to which the zoneCases refer.
func newPowerDNSHost(t testing.TB) *powerDNSHost {
	t.Helper()
	server, err := testserver.StartPowerDNS(t.Context())
	must(t, err)
	t.Cleanup(server.Stop)
	host := &powerDNSHost{server: server}
	host.reader = dnsresolver.New(dnsresolver.Options{Resolvers: []string{server.DNS}, Port: host.port(), AllowPrivate: true})
	host.plugin = newDNSPlugin(t, "powerdns", wire.Connection{
		Settings: map[string]string{"api_url": server.API, "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New(server.Key)},
	})
	for _, parentZone := range []string{"test", "messy.test"} { // these have no DMARC policy
		host.replaceRecords(t, parentZone, nil)
	}
	host.replaceRecords(t, "hosting.test", parseZoneLines("hosting.test", "ns1 300 A 127.0.0.1\nns2 300 A 127.0.0.2"))
	for _, zoneSet := range []map[string]string{outsideZones, platformZones} {
		for zone, records := range zoneSet {
			host.replaceRecords(t, zone, parseZoneLines(zone, records))
		}
	}
	return host
}

// port returns the port of the name server, which is the same on both of its addresses.
func (h *powerDNSHost) port() (port int) {
	_, _ = fmt.Sscanf(h.server.DNS, "127.0.0.1:%d", &port)
	return port
}

func (h *powerDNSHost) provider() ports.DNSProvider { return h.plugin }

func (h *powerDNSHost) readDNS(t testing.TB, c zoneCase) dns.ZoneRead {
	return readZone(t, h.reader, c)
}

// readZone reads the zone of a case from its authoritative servers.
func readZone(t testing.TB, reader ports.DNSReader, c zoneCase) dns.ZoneRead {
	t.Helper()
	zoneRead, err := reader.Read(t.Context(), "", c.domain(), dns.DesiredRecords(c.domain(), c.offer())...)
	must(t, err)
	return zoneRead
}

func (h *powerDNSHost) replaceRecords(t testing.TB, zone string, records []zoneLine) {
	t.Helper()
	var sets []map[string]any
	setIndex := map[string]int{}
	for _, line := range records {
		i, ok := setIndex[line.key()]
		if !ok {
			i = len(sets)
			setIndex[line.key()] = i
			sets = append(sets, map[string]any{"name": line.name + ".", "type": line.recordType, "ttl": line.ttl, "records": []any{}})
		}
		sets[i]["records"] = append(sets[i]["records"].([]any), map[string]any{"content": line.zoneFileText()})
	}
	h.callAPI(t, http.MethodDelete, "/"+zone+".", nil)
	h.callAPI(t, http.MethodPost, "", map[string]any{
		"name": zone + ".", "kind": "Native", "nameservers": []string{"ns1.hosting.test.", "ns2.hosting.test."}, "rrsets": sets,
	})
}

// zoneFileText returns the content of a record in zone file format.
func (l zoneLine) zoneFileText() string {
	if l.recordType == dns.TXT && !strings.HasPrefix(l.text, `"`) {
		return sdk.QuoteText(l.text)
	}
	return l.text
}

func (h *powerDNSHost) storedRecords(t testing.TB, zone string) []storedRecord {
	t.Helper()
	var doc struct {
		RRSets []struct {
			Name    string            `json:"name"`
			Type    dns.Type          `json:"type"`
			TTL     int               `json:"ttl"`
			Records []json.RawMessage `json:"records"`
		} `json:"rrsets"`
	}
	must(t, json.Unmarshal(h.callAPI(t, http.MethodGet, "/"+zone+".", nil), &doc))
	var stored []storedRecord
	for _, set := range doc.RRSets {
		if set.Name == zone+"." && (set.Type == dns.SOA || set.Type == dns.NS) {
			continue
		}
		for _, raw := range set.Records {
			var record struct {
				Content string `json:"content"`
			}
			must(t, json.Unmarshal(raw, &record))
			line := zoneLine{strings.TrimSuffix(set.Name, "."), set.TTL, set.Type, record.Content}
			stored = append(stored, storedRecord{line, fmt.Sprint(set.Name, " ", set.Type, " ", set.TTL, " ", string(raw))})
		}
	}
	return stored
}

// callAPI calls the server's API without the plugin.
func (h *powerDNSHost) callAPI(t testing.TB, method, path string, in any) []byte {
	t.Helper()
	body, err := json.Marshal(in)
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, h.server.API+"/api/v1/servers/localhost/zones"+path, bytes.NewReader(body))
	must(t, err)
	r.Header.Set("X-API-Key", h.server.Key)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	alreadyAbsent := method == http.MethodDelete && answer.StatusCode == http.StatusNotFound
	if err != nil || answer.StatusCode >= http.StatusMultipleChoices && !alreadyAbsent {
		t.Fatalf("%s %s is answered %d %s, want a success (%v)", method, path, answer.StatusCode, raw, err)
	}
	return raw
}

// These marks at the end of a record in a zoneCase are settings of the record at Cloudflare.
const flattenedMark, proxiedMark = " (flattened)", " (proxied)"

var cloudflareCases = []zoneCase{
	{
		name: "cf-dkim-flattened", onlyAt: "cloudflare",
		records: "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft." + flattenedMark,
		want:    wantItems{"dkim_selector1": "preserve dkim_flattened"}, differsFromDNS: true,
		removed: "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft." + flattenedMark,
		added:   "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft.",
	},
	{
		name: "cf-autodiscover-proxied", onlyAt: "cloudflare", records: "autodiscover 1 CNAME autodiscover.outlook.com." + proxiedMark,
		want: wantItems{"autodiscover": "conflict autodiscover_taken"}, differsFromDNS: true,
	},
	{name: "cf-website-proxied", onlyAt: "cloudflare", records: "@ 1 A 192.0.2.80" + proxiedMark + "\nwww 1 CNAME web.elsewhere.test." + proxiedMark},
	{name: "cf-alias-flattened", onlyAt: "cloudflare", records: "@ 300 CNAME web.elsewhere.test." + flattenedMark + "\n@ 1 TXT something"},
	{name: "cf-automatic-ttl", onlyAt: "cloudflare", records: "@ 1 TXT something\n@ 1 MX 0 {d-}.r4nd.mx.microsoft.", want: wantItems{"mx": "preserve present"}},
}

// cloudflareHost is the simulator of Cloudflare. The DNS server of the sandbox serves its zones.
type cloudflareHost struct {
	url    string
	store  *zones.Store
	server string // the address of the DNS server
	reader ports.DNSReader
	plugin ports.DNSProvider
}

// newCloudflareHost starts the simulator, and a DNS server with the zones to which the zoneCases
// refer.
func newCloudflareHost(t testing.TB) *cloudflareHost {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	simulatorHandler, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: t.TempDir(), Log: io.Discard})
	must(t, err)
	handler = simulatorHandler
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	must(t, err)
	dnsServer, err := zones.Listen(t.Context(), store)
	must(t, err)
	t.Cleanup(func() { _ = dnsServer.Close() })
	host := &cloudflareHost{url: server.URL, store: store, server: dnsServer.Addr(),
		reader: dnsresolver.New(dnsresolver.Options{Resolvers: []string{dnsServer.Addr()}, Port: dnsServer.Port(), AllowPrivate: true}),
		plugin: newDNSPlugin(t, "cloudflare", wire.Connection{
			Settings: ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(ready.Secrets["api_token"])},
		}),
	}
	for zone, records := range outsideZones {
		host.replaceRecords(t, zone, parseZoneLines(zone, records))
		host.publish(t, zone)
	}
	for zone, records := range platformZones {
		var platformRecords []zones.Record
		for _, line := range parseZoneLines(zone, records) {
			platformRecords = append(platformRecords, zones.Record{Type: string(line.recordType), Name: line.name, Content: line.text, TTL: line.ttl})
		}
		must(t, store.ServeOwn(zone, platformRecords))
	}
	return host
}

func (h *cloudflareHost) provider() ports.DNSProvider { return h.plugin }

func (h *cloudflareHost) readDNS(t testing.TB, c zoneCase) dns.ZoneRead {
	h.publish(t, c.zone())
	return readZone(t, h.reader, c)
}

func (h *cloudflareHost) replaceRecords(t testing.TB, zone string, records []zoneLine) {
	t.Helper()
	body := []map[string]any{}
	for _, line := range records {
		content := strings.TrimSuffix(line.plainText(), ".")
		record := map[string]any{"type": line.recordType, "name": line.name, "ttl": line.ttl}
		switch line.recordType {
		case dns.MX, "SRV":
			preference, rest, _ := strings.Cut(line.plainText(), " ")
			record["priority"] = json.Number(preference)
			if content = strings.TrimSuffix(rest, "."); content == "" {
				content = "."
			}
		case dns.TXT:
			content = line.zoneFileText()
		case dns.CNAME:
			record["settings"] = map[string]any{"flatten_cname": strings.HasSuffix(line.text, flattenedMark)}
		}
		record["content"], record["proxied"] = content, strings.HasSuffix(line.text, proxiedMark)
		body = append(body, record)
	}
	h.control(t, http.MethodPut, "/zones/"+zone, map[string]string{}, nil)
	h.control(t, http.MethodPut, "/zones/"+zone+"/records", body, nil)
}

type cloudflareRecord struct {
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

func (h *cloudflareHost) storedRecords(t testing.TB, zone string) []storedRecord {
	t.Helper()
	var rawRecords []json.RawMessage
	h.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &rawRecords)
	var stored []storedRecord
	for _, raw := range rawRecords {
		record := decodeRecord(t, raw)
		line := zoneLine{record.Name, record.TTL, dns.Type(record.Type), record.Content}
		if record.Priority != nil {
			line.text = fmt.Sprint(*record.Priority, " ", record.Content)
		}
		if line.recordType == "SRV" { // the API omits the final dot of the target
			line.text += "."
		}
		stored = append(stored, storedRecord{line, string(raw)})
	}
	return stored
}

func decodeRecord(t testing.TB, raw json.RawMessage) (r cloudflareRecord) {
	t.Helper()
	must(t, json.Unmarshal(raw, &r))
	return r
}

// publish makes the DNS server answer like Cloudflare's servers. For a proxied record it answers
// with a fixed address. For any other CNAME that is flattened or at the apex it answers with the
// TXT and A records of the target.
func (h *cloudflareHost) publish(t testing.TB, zone string) {
	t.Helper()
	var rawRecords []json.RawMessage
	h.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &rawRecords)
	var served []zones.Record
	for _, raw := range rawRecords {
		record := decodeRecord(t, raw)
		if record.TTL == 1 {
			record.TTL = 300
		}
		served = append(served, h.servedRecords(t, zone, record)...)
	}
	must(t, h.store.Add(zone, "cloudflare"))
	if err := h.store.Replace(zone, served); err != nil {
		t.Fatalf("the DNS server refuses the records of %s: %v", zone, err)
	}
}

// servedRecords returns the records with which the DNS server answers for a stored record.
func (h *cloudflareHost) servedRecords(t testing.TB, zone string, r cloudflareRecord) []zones.Record {
	t.Helper()
	served := zones.Record{Type: r.Type, Name: r.Name, Content: r.Content, TTL: r.TTL, Priority: r.Priority}
	switch {
	case r.Proxied:
		served.Type, served.Content = "A", "192.0.2.99"
	case r.Type == "CNAME" && (r.Settings.Flatten || r.Name == zone):
		return h.flattenTarget(t, r)
	case r.Type == "TXT":
		text, err := sdk.UnquoteText(r.Content)
		must(t, err)
		served.Content = text
	}
	return []zones.Record{served}
}

// flattenTarget returns the TXT and A records at the target of a CNAME, with the name of the CNAME.
func (h *cloudflareHost) flattenTarget(t testing.TB, r cloudflareRecord) []zones.Record {
	t.Helper()
	var records []zones.Record
	tcp := wiredns.Client{Net: "tcp", Timeout: time.Minute}
	for _, queryType := range []uint16{wiredns.TypeTXT, wiredns.TypeA} {
		answer, _, err := tcp.Exchange(new(wiredns.Msg).SetQuestion(r.Content+".", queryType), h.server)
		must(t, err)
		for _, resourceRecord := range answer.Answer {
			record := zones.Record{Type: wiredns.TypeToString[queryType], Name: r.Name, TTL: r.TTL}
			switch resourceRecord := resourceRecord.(type) {
			case *wiredns.TXT:
				record.Content = strings.Join(resourceRecord.Txt, "")
			case *wiredns.A:
				record.Content = resourceRecord.A.String()
			}
			records = append(records, record)
		}
	}
	return records
}

func (h *cloudflareHost) control(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+"/_control"+path, bytes.NewReader(body))
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || out != nil && json.Unmarshal(raw, out) != nil {
		t.Fatalf("%s %s is answered %d %s, want a success (%v)", method, path, answer.StatusCode, raw, err)
	}
}
