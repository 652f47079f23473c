// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanOwnership(t *testing.T) {
	o := offer()
	o.Service = nil
	managed := []dns.Written{{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"}}
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{ms}},
		{name: "there", sets: spf("x", ms, "y"), action: dns.Preserve, reason: "present", after: []string{"x", ms, "y"}},
		{name: "other texts stay, other tenants' too", sets: spf("MS=ms99", "x"), action: dns.Create, reason: "missing", after: []string{"MS=ms99", "x", ms}},
		{name: "letters count", sets: spf("ms=MS12345678"), action: dns.Create, reason: "missing", after: []string{"ms=MS12345678", ms}},
		{name: "own_superseded", sets: spf("x", "MS=ms1", "y"), managed: managed, action: dns.Update, reason: "own_superseded", after: []string{"x", ms, "y"}},
		{name: "ours of before does no harm beside the present one", sets: spf("MS=ms1", ms), managed: managed, action: dns.Preserve, reason: "present",
			after: []string{"MS=ms1", ms}},
		{name: "bytes that are no text stay", sets: spf("\x00\xff;\"\\"), action: dns.Create, reason: "missing", after: []string{"\x00\xff;\"\\", ms}},
		{name: "txt_set_large", sets: spf(strings.Repeat("x", 8192)), action: dns.Create, reason: "missing", notes: []dns.Note{"txt_set_large"},
			after: []string{strings.Repeat("x", 8192), ms}},
		{name: "cname_at_domain", sets: []dns.RRSet{set("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, o, "a.test", dns.Ownership) })
	}
}

func TestPlanAutodiscover(t *testing.T) {
	const name = "autodiscover.a.test"
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{auto}},
		{name: "equal", sets: []dns.RRSet{set(name, dns.CNAME, "Autodiscover.Outlook.com.")}, action: dns.Preserve, reason: "present",
			after: []string{"Autodiscover.Outlook.com."}},
		{name: "autodiscover_taken by a CNAME", sets: []dns.RRSet{set(name, dns.CNAME, "else.test")}, action: dns.Conflict, reason: "autodiscover_taken",
			after: []string{"else.test"}},
		{name: "autodiscover_taken by an address", sets: []dns.RRSet{set(name, "A", "192.0.2.1")}, action: dns.Conflict, reason: "autodiscover_taken"},
		{name: "own_superseded", sets: []dns.RRSet{set(name, dns.CNAME, "old.test")},
			managed: []dns.Written{{Purpose: dns.Autodiscover, Name: name, Type: dns.CNAME, Value: "old.test"}},
			action:  dns.Update, reason: "own_superseded", after: []string{auto}},
		{name: "only a wildcard's", sets: []dns.RRSet{synthesised(set(name, dns.CNAME, "web.test"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{auto}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, offer(), "a.test", dns.Autodiscover) })
	}
}

func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.StringN(0, -1, 600)).Draw(t, "words"), " ")
		chunks := dns.Chunks(text)
		if strings.Join(chunks, "") != text {
			t.Fatalf("%q becomes %q", text, chunks)
		}
		for i, c := range chunks {
			if len(c) > 255 || c == "" && text != "" {
				t.Fatalf("chunk %d has %d octets", i, len(c))
			}
			if i < len(chunks)-1 && strings.Contains(c, " ") && !strings.HasSuffix(c, " ") {
				t.Fatalf("%q is not split at its last space", c)
			}
		}
	})
	if got := dns.Chunks(""); len(got) != 1 {
		t.Errorf("the empty text is %q", got)
	}
}
