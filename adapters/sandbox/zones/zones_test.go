// SPDX-License-Identifier: Apache-2.0

package zones_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func openStore(t *testing.T) (*zones.Store, *zones.Server) {
	t.Helper()
	store, err := zones.Open(filepath.Join(t.TempDir(), "zones.json"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := zones.Listen(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, server
}

func parseRecords(t *testing.T, text string) []zones.Record {
	t.Helper()
	var records []zones.Record
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		t.Fatal(err)
	}
	return records
}

// hangTimeout limits a query. Only a query that hangs exceeds it. The default of the client is 2 s.
const hangTimeout = 4 * time.Minute

func query(t *testing.T, server *zones.Server, network, name, qtype string, recurse bool) *wire.Msg {
	t.Helper()
	question := new(wire.Msg).SetQuestion(wire.Fqdn(name), wire.StringToType[qtype])
	question.RecursionDesired = recurse
	answer, _, err := (&wire.Client{Net: network, Timeout: hangTimeout}).ExchangeContext(t.Context(), question, server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

const sampleZone = `[
 {"type":"MX","name":"example.test","content":"mail.example.net","ttl":300,"priority":5},
 {"type":"TXT","name":"example.test","content":"say \"hi\" \\ there","ttl":60},
 {"type":"CNAME","name":"autodiscover.example.test","content":"autodiscover.mail.example","ttl":300},
 {"type":"CNAME","name":"loop.example.test","content":"loop.example.test","ttl":300},
 {"type":"CNAME","name":"gone.example.test","content":"nobody.nowhere","ttl":300},
 {"type":"A","name":"*.wild.example.test","content":"192.0.2.9","ttl":300},
 {"type":"NS","name":"sub.example.test","content":"ns.elsewhere.example","ttl":300},
 {"type":"CAA","name":"example.test","content":"0 issue \"ca.example\"","ttl":300},
 {"type":"SRV","name":"_sip._tcp.example.test","content":"1 443 sip.example.net","ttl":300,"priority":100}
]`

// platformZone is the zone of a mail platform's own names.
const platformZone = `[
 {"type":"TXT","name":"spf.mail.example","content":"v=spf1 ip4:192.0.2.0/24 -all","ttl":300},
 {"type":"A","name":"autodiscover.mail.example","content":"192.0.2.25","ttl":300},
 {"type":"A","name":"*.mx.mail.example","content":"192.0.2.25","ttl":300},
 {"type":"TXT","name":"*.dkim.mail.example","content":"v=DKIM1; k=rsa; p=MIIB","ttl":300}
]`

func TestServerAnswersForEachZone(t *testing.T) {
	store, server := openStore(t)
	if err := store.ServeOwn("mail.example", parseRecords(t, platformZone)); err != nil {
		t.Fatal(err)
	}
	if err := store.Add("example.test", "cloudflare"); err != nil {
		t.Fatal(err)
	}
	if err := store.Replace("example.test", parseRecords(t, sampleZone)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, qname, qtype, wantRcode, wantAnswer, wantAuthority string }{
		{"a record", "Example.TEST", "MX", "NOERROR", "5 mail.example.net.", ""},
		{"text with quotes and backslashes", "example.test", "TXT", "NOERROR", `"say \"hi\" \\ there"`, ""},
		{"the name servers of a zone", "example.test", "NS", "NOERROR", "ada.ns.cloudflare.com.|bob.ns.cloudflare.com.", ""},
		{"the address of a name server", "ada.ns.cloudflare.com", "A", "NOERROR", "127.0.0.1", ""},
		{"no such type", "example.test", "AAAA", "NOERROR", "", "example.test. SOA"},
		{"no such name", "no.example.test", "A", "NXDOMAIN", "", "example.test. SOA"},
		{"an empty non-terminal name", "wild.example.test", "A", "NOERROR", "", "example.test. SOA"},
		{"a wildcard", "x.y.wild.example.test", "A", "NOERROR", "192.0.2.9", ""},
		{"an alias to another zone", "autodiscover.example.test", "A", "NOERROR", "autodiscover.mail.example.|192.0.2.25", ""},
		{"an alias itself", "autodiscover.example.test", "CNAME", "NOERROR", "autodiscover.mail.example.", ""},
		{"an alias to nothing", "gone.example.test", "A", "NXDOMAIN", "nobody.nowhere.", ". SOA"},
		{"a delegation", "a.sub.example.test", "A", "NOERROR", "", "sub.example.test. NS"},
		{"an SRV record", "_sip._tcp.example.test", "SRV", "NOERROR", "100 1 443 sip.example.net.", ""},
		{"a CAA record", "example.test", "CAA", "NOERROR", `0 issue "ca.example"`, ""},
		{"an unregistered name", "other.test", "SOA", "NXDOMAIN", "", "test. SOA"},
		{"the top level", "test", "SOA", "NOERROR", "a.root.sandbox-registrar.test. hostmaster.sandbox-registrar.test. 1 3600 600 604800 5", ""},
		{"an unknown top level", "a.unknown", "A", "NXDOMAIN", "", ". SOA"},
		{"the mail platform's SPF", "spf.mail.example", "TXT", "NOERROR", `"v=spf1 ip4:192.0.2.0/24`, ""},
		{"the mail platform's exchangers", "example-test.mx.mail.example", "A", "NOERROR", "192.0.2.25", ""},
		{"a signing key", "selector1-example-test._domainkey.tenant.dkim.mail.example", "TXT", "NOERROR", `"v=DKIM1; k=rsa; p=`, ""},
		{"no signing key at names other than selectors", "tenant.dkim.mail.example", "TXT", "NXDOMAIN", "", "mail.example. SOA"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				answer := query(t, server, network, tc.qname, tc.qtype, network == "udp")
				if rcode := wire.RcodeToString[answer.Rcode]; rcode != tc.wantRcode {
					t.Fatalf("got %s, want %s", rcode, tc.wantRcode)
				}
				isPrefix := strings.HasPrefix(tc.wantAnswer, `"v=`) // the case has only the beginning of the text
				if got := dataOf(answer.Answer); got != tc.wantAnswer && (!isPrefix || !strings.HasPrefix(got, tc.wantAnswer)) {
					t.Errorf("answer: got %s, want %s", got, tc.wantAnswer)
				}
				if got := ownersOf(answer.Ns); got != tc.wantAuthority {
					t.Errorf("authority: got %s, want %s", got, tc.wantAuthority)
				}
				if answer.Authoritative == (tc.name == "a delegation") || answer.RecursionAvailable != (network == "udp") {
					t.Errorf("AA %v, RA %v, want AA except for a delegation, and RA only by UDP", answer.Authoritative, answer.RecursionAvailable)
				}
			}
		})
	}
}

func dataOf(records []wire.RR) string {
	var lines []string
	for _, rr := range records {
		lines = append(lines, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(lines, "|")
}

func ownersOf(records []wire.RR) string {
	var lines []string
	for _, rr := range records {
		lines = append(lines, rr.Header().Name+" "+wire.TypeToString[rr.Header().Rrtype])
	}
	return strings.Join(lines, "|")
}

func TestAliasLoopEnds(t *testing.T) {
	store, server := openStore(t)
	if err := errors.Join(store.Add("example.test", "manual"), store.Replace("example.test", parseRecords(t, sampleZone))); err != nil {
		t.Fatal(err)
	}
	if m := query(t, server, "udp", "loop.example.test", "A", false); len(m.Answer) > 10 {
		t.Fatalf("the answer for a loop has %d records, want at most 10", len(m.Answer))
	}
}

func TestUnsupportedQuestionsAreRefused(t *testing.T) {
	_, server := openStore(t)
	for _, tc := range []struct {
		name string
		edit func(*wire.Msg)
		want int
	}{
		{"an update", func(msg *wire.Msg) { msg.Opcode = wire.OpcodeUpdate }, wire.RcodeNotImplemented},
		{"a different class", func(msg *wire.Msg) { msg.Question[0].Qclass = wire.ClassCHAOS }, wire.RcodeRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			question := new(wire.Msg).SetQuestion("example.test.", wire.TypeTXT)
			tc.edit(question)
			answer, _, err := (&wire.Client{Timeout: hangTimeout}).ExchangeContext(t.Context(), question, server.Addr())
			if err != nil || answer.Rcode != tc.want {
				t.Fatalf("got %v, %v, want %s", answer, err, wire.RcodeToString[tc.want])
			}
		})
	}
}

func TestLongAnswersAreTruncatedByUDP(t *testing.T) {
	store, server := openStore(t)
	longRecords := []zones.Record{{Type: "TXT", Name: "example.test", Content: strings.Repeat("x", 2000), TTL: 60}}
	if err := errors.Join(store.Add("example.test", "manual"), store.Replace("example.test", longRecords)); err != nil {
		t.Fatal(err)
	}
	if m := query(t, server, "udp", "example.test", "TXT", false); !m.Truncated {
		t.Error("the answer by UDP is not truncated")
	}
	if m := query(t, server, "tcp", "example.test", "TXT", false); m.Truncated || len(m.Answer) != 1 || len(m.Answer[0].(*wire.TXT).Txt) != 8 {
		t.Errorf("the answer by TCP is %v, want one TXT record of 8 strings", m)
	}
}

func TestZonesAreSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zones.json")
	store, err := zones.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := parseRecords(t, sampleZone)
	if err := errors.Join(store.Add("Example.test", "cloudflare"), store.Replace("example.TEST", want)); err != nil {
		t.Fatal(err)
	}
	reopened, err := zones.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reopened.Records("example.test")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("records after a restart: %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"example.test"}, reopened.Names()); diff != "" {
		t.Fatalf("names of zones (-want +got):\n%s", diff)
	}
}

func TestAddChecksNameAndProvider(t *testing.T) {
	store, _ := openStore(t)
	if err := store.Add("example.test", "cloudflare"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, zone, provider string
		wantSuccess          bool
	}{
		{"the same zone again", "example.test", "cloudflare", true},
		{"a zone below an existing zone", "sub.example.test", "manual", true},
		{"the same zone at a different provider", "example.test", "manual", false},
		{"a provider that is not built in", "other.test", "other-dns", true},
		{"an invalid provider id", "new.test", "Other DNS", false},
		{"one label", "test", "manual", false},
		{"a public suffix", "co.uk", "manual", false},
		{"a final dot", "new.test.", "manual", false},
		{"an invalid host name", "new..test", "manual", false},
		{"a built-in zone", "iana.org", "manual", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := store.Add(tc.zone, tc.provider)
			if (err == nil) != tc.wantSuccess || err != nil && !errors.As(err, new(zones.InvalidError)) {
				t.Fatalf("got %v, want success %t, or an InvalidError", err, tc.wantSuccess)
			}
		})
	}
}

func TestInvalidRecordsAreRefused(t *testing.T) {
	store, _ := openStore(t)
	if err := store.Add("example.test", "manual"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, record string }{
		{"name with a final dot", `{"type":"A","name":"a.example.test.","content":"192.0.2.1","ttl":60}`},
		{"name outside the zone", `{"type":"A","name":"a.other.test","content":"192.0.2.1","ttl":60}`},
		{"name outside the zone that ends with the same letters", `{"type":"A","name":"notexample.test","content":"192.0.2.1","ttl":60}`},
		{"relative name", `{"type":"A","name":"www","content":"192.0.2.1","ttl":60}`},
		{"TTL of 0", `{"type":"A","name":"a.example.test","content":"192.0.2.1","ttl":0}`},
		{"quoted text", `{"type":"TXT","name":"a.example.test","content":"\"v=spf1 -all\"","ttl":60}`},
		{"empty text", `{"type":"TXT","name":"a.example.test","content":"","ttl":60}`},
		{"MX without a priority", `{"type":"MX","name":"example.test","content":"m.example.net","ttl":60}`},
		{"MX with a bad priority", `{"type":"MX","name":"example.test","content":"m.example.net","ttl":60,"priority":65536}`},
		{"A with a priority", `{"type":"A","name":"a.example.test","content":"192.0.2.1","ttl":60,"priority":1}`},
		{"A with an IPv6 address", `{"type":"A","name":"a.example.test","content":"::1","ttl":60}`},
		{"AAAA with an IPv4 address", `{"type":"AAAA","name":"a.example.test","content":"192.0.2.1","ttl":60}`},
		{"CNAME to an invalid host name", `{"type":"CNAME","name":"a.example.test","content":"not a host","ttl":60}`},
		{"CNAME at the apex", `{"type":"CNAME","name":"example.test","content":"a.example.net","ttl":60}`},
		{"NS at the apex", `{"type":"NS","name":"example.test","content":"a.example.net","ttl":60}`},
		{"SOA", `{"type":"SOA","name":"example.test","content":"a. b. 1 2 3 4 5","ttl":60}`},
		{"unknown type", `{"type":"SPF","name":"example.test","content":"x","ttl":60}`},
		{"CAA without a flag and a value", `{"type":"CAA","name":"example.test","content":"issue","ttl":60}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := store.Replace("example.test", parseRecords(t, "["+tc.record+"]"))
			if !errors.As(err, new(zones.InvalidError)) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
		})
	}
	if err := store.Replace("unknown.test", nil); !errors.Is(err, zones.ErrUnknown) {
		t.Errorf("replace the records of an unknown zone: got %v, want ErrUnknown", err)
	}
}

func TestConflictingRecordsAreRefused(t *testing.T) {
	store, _ := openStore(t)
	if err := store.Add("example.test", "manual"); err != nil {
		t.Fatal(err)
	}
	address := `{"type":"A","name":"a.example.test","content":"192.0.2.1","ttl":60}`
	cname := `{"type":"CNAME","name":"A.example.test","content":"b.example.net","ttl":60}`
	for name, records := range map[string]string{
		"a record twice": address + "," + address, "a record after a CNAME": cname + "," + address, "a CNAME after a record": address + "," + cname,
	} {
		if err := store.Replace("example.test", parseRecords(t, "["+records+"]")); !errors.As(err, new(zones.InvalidError)) {
			t.Errorf("%s: got %v, want an InvalidError", name, err)
		}
	}
}

func TestMalformedRecordsAreRefused(t *testing.T) {
	for _, text := range []string{
		`[{"type":"A","name":"a.example.test","content":"192.0.2.1"}]`,
		`[{"type":"A","name":"a.example.test","content":"192.0.2.1","ttl":60,"proxied":true}]`,
		`[{"type":"A","name":"a.example.test","content":"192.0.2.1","ttl":"60"}]`,
		`["A"]`,
	} {
		var list []zones.Record
		if err := json.Unmarshal([]byte(text), &list); !errors.As(err, new(zones.InvalidError)) {
			t.Errorf("%s: got %v, want an InvalidError", text, err)
		}
	}
}

// TestServeOwnReplacesOnlyOwnZones checks that a simulator can change the zones of its provider. It
// cannot change zones of customers or built-in zones.
func TestServeOwnReplacesOnlyOwnZones(t *testing.T) {
	store, server := openStore(t)
	if err := store.Add("example.test", "cloudflare"); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		if err := store.ServeOwn("mail.example", []zones.Record{{Type: "A", Name: "a.mail.example", Content: address, TTL: 60}}); err != nil {
			t.Fatal(err)
		}
		if got := dataOf(query(t, server, "udp", "a.mail.example", "A", false).Answer); got != address {
			t.Errorf("the server answers %s, want %s", got, address)
		}
	}
	for apex, list := range map[string][]zones.Record{
		"example.test": nil, "iana.org": nil, "example": nil, "Mail.example": nil, "": nil,
		"other.example": {{Type: "A", Name: "elsewhere.test", Content: "192.0.2.1", TTL: 60}},
	} {
		if err := store.ServeOwn(apex, list); !errors.As(err, new(zones.InvalidError)) {
			t.Errorf("serve the zone %q: got %v, want an InvalidError", apex, err)
		}
	}
	if names := store.Names(); !slices.Equal(names, []string{"example.test"}) {
		t.Errorf("the stored zones are %v, want only example.test", names)
	}
}
