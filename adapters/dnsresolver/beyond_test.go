// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// wanted is what the platform asks for in these tests.
func wanted(domain string) []dns.Desired {
	return dns.Desire(domain, dns.Offer{
		Service: []dns.Record{
			{Type: dns.MX, Name: domain, Content: "example-test.mx.platform.test"},
			{Type: dns.TXT, Name: domain, Content: "v=spf1 include:spf.platform.test -all"},
		},
		Signing: dns.Signing{
			Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + domain, Content: "key1.platform.test"},
			Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey." + domain, Content: "key2.platform.test"},
		},
	})
}

// ask reads example.test for a plan, from two servers of the same records.
func (w *world) ask(records string) dns.Sight {
	w.t.Helper()
	w.server("127.0.0.2", zone(w.t, records))
	w.server("127.0.0.3", zone(w.t, records))
	sight, err := w.reader().Read(w.t.Context(), "example.test", wanted("example.test")...)
	if err != nil {
		w.t.Fatal(err)
	}
	return sight
}

const bare = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
`

func TestWhatAPlanNeedsOfOthers(t *testing.T) {
	w := newWorld(t, delegation+`
spf.platform.test. 300 IN TXT "v=spf1 include:more.platform.test -all"
more.platform.test. 300 IN TXT "v=spf1 ip4:192.0.2.1 -all"
a.test. 300 IN TXT "v=spf1 redirect=b.test"
a.test. 300 IN TXT "not SPF include:c.test"
b.test. 300 IN TXT "v=spf1 include:a.test -all"
_dmarc.test. 300 IN TXT "v=DMARC1; p=reject"
key2.platform.test. 300 IN TXT "v=DKIM1; p=abc"
mx.alias.test. 300 IN CNAME mx.fine.test.
mx.fine.test. 300 IN AAAA 2001:db8::1
mx.four.test. 300 IN A 192.0.2.1
mx.text.test. 300 IN TXT "no address"
`)
	got := w.ask(bare + `
example.test. 300 IN TXT "v=spf1 include:a.test include:void.test -all"
example.test. 300 IN MX 0 example-test.mx.platform.test.
example.test. 300 IN MX 1 mx.alias.test.
example.test. 300 IN MX 2 mx.fine.test.
example.test. 300 IN MX 3 mx.four.test.
example.test. 300 IN MX 4 mx.text.test.
example.test. 300 IN MX 5 mx.nobody.test.
selector1._domainkey.example.test. 300 IN CNAME key1.platform.test.
selector2._domainkey.example.test. 300 IN TXT "v=DKIM1; p=abc"
`)
	want := dns.Beyond{
		SPF: map[string][]string{
			"spf.platform.test": {"v=spf1 include:more.platform.test -all"}, "more.platform.test": {"v=spf1 ip4:192.0.2.1 -all"},
			"a.test": {"not SPF include:c.test", "v=spf1 redirect=b.test"}, "b.test": {"v=spf1 include:a.test -all"}, "void.test": nil,
		},
		Above:     map[string][]string{"_dmarc.test": {"v=DMARC1; p=reject"}},
		Exchanges: map[string]dns.Exchange{"mx.alias.test": dns.ExchangeAlias, "mx.text.test": dns.ExchangeNowhere, "mx.nobody.test": dns.ExchangeNowhere},
		Keys:      map[string][]string{"key2.platform.test": {"v=DKIM1; p=abc"}},
	}
	if diff := cmp.Diff(want, got.Beyond); diff != "" || !got.Complete {
		t.Fatalf("%s %s", got.Reason, diff)
	}
	for what, n := range w.cut.counts() {
		if n > 1 && what != "test. NS" {
			t.Errorf("%s was asked %d times", what, n)
		}
	}
	if n := w.cut.count("example-test.mx.platform.test. A") + w.cut.count("key1.platform.test. TXT"); n > 0 {
		t.Errorf("%d questions that nobody needs", n)
	}
}

func TestAFailedWalkLeavesTheReadIncomplete(t *testing.T) {
	for name, records := range map[string]struct {
		zone   string
		reason string
	}{
		"no policy of its own": {bare, "type_unknown"},
		"with a policy":        {bare + `_dmarc.example.test. 300 IN TXT "v=DMARC1; p=none"`, ""},
		"with an alias":        {bare + "_dmarc.example.test. 300 IN CNAME p.vendor.test.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, delegation)
			w.cut.failing("_dmarc.test.")
			if got := w.ask(records.zone); got.Reason != records.reason {
				t.Fatalf("got %q", got.Reason)
			}
		})
	}
}

// What others' names do not answer is for the plan to weigh.
func TestAnSPFNameThatFailsIsAbsent(t *testing.T) {
	w := newWorld(t, delegation)
	w.cut.failing("spf.platform.test.")
	got := w.ask(bare)
	if _, known := got.Beyond.SPF["spf.platform.test"]; known || !got.Complete {
		t.Fatalf("got %q, %v", got.Reason, got.Beyond.SPF)
	}
}

func TestATreeOfSPFHasItsBounds(t *testing.T) {
	var wide, deep strings.Builder
	wide.WriteString(`example.test. 300 IN TXT "v=spf1`)
	for i := range 80 {
		part := fmt.Sprintf(" include:n%d.test", i)
		if i%12 == 11 {
			part = `" "` + part
		}
		wide.WriteString(part)
		fmt.Fprintf(&deep, "deep%d.test. 300 IN TXT \"v=spf1 include:deep%d.test -all\"\n", i, i+1)
	}
	wide.WriteString(` -all"`)
	for _, tt := range []struct {
		name, zone string
		most       int
	}{
		{"wide", wide.String(), 50},
		{"deep", `example.test. 300 IN TXT "v=spf1 include:deep0.test -all"`, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, delegation+deep.String())
			got := w.ask(bare + tt.zone)
			texts := 0
			for what, n := range w.cut.counts() {
				if strings.HasSuffix(what, " TXT") && !strings.HasPrefix(what, "_dmarc") {
					texts += n
				}
			}
			if !got.Complete || texts > tt.most || texts < 10 || len(got.Beyond.SPF) > tt.most {
				t.Fatalf("%q, %d questions, %d names", got.Reason, texts, len(got.Beyond.SPF))
			}
		})
	}
}

func TestManyExchangesAreNotAllAsked(t *testing.T) {
	var mx strings.Builder
	for i := range 60 {
		fmt.Fprintf(&mx, "example.test. 300 IN MX 5 m%02d.test.\n", i)
	}
	w := newWorld(t, delegation)
	got := w.ask(bare + mx.String())
	if !got.Complete || len(got.Beyond.Exchanges) != 10 {
		t.Fatalf("%q, %d exchanges", got.Reason, len(got.Beyond.Exchanges))
	}
}

// A third server is slow; what the others' answers call for is asked meanwhile.
func TestASlowServerDelaysNothingElse(t *testing.T) {
	three := bare + "example.test. 300 IN NS ns3.example.test.\n"
	w := newWorld(t, delegation+"example.test. 300 IN NS ns3.example.test.\nns3.example.test. 300 IN A 127.0.0.4\n")
	asked := make(chan struct{})
	w.cut.changing(func(_, q *wire.Msg) {
		if q.Question[0].Name == "spf.platform.test." {
			close(asked)
		}
	})
	slow := zone(t, three)
	w.server("127.0.0.4", wire.HandlerFunc(func(to wire.ResponseWriter, q *wire.Msg) {
		select {
		case <-asked:
			slow.ServeDNS(to, q)
		case <-time.After(hang): // the question that asked waits for never came
		}
	}))
	got := w.ask(three)
	if !got.Complete || got.Warnings != nil || got.Agreeing() != 3 {
		t.Fatalf("%q, %v, %v", got.Reason, got.Warnings, got.Servers)
	}
}
