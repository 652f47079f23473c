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

// desiredRecords returns the records that a mail platform requires in these tests.
func desiredRecords(domain string) []dns.Desired {
	return dns.DesiredRecords(domain, dns.Offer{
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

// readForPlan starts two servers that serve these records. It then reads example.test with
// desiredRecords as the wanted records.
func (f *fixture) readForPlan(records string) dns.ZoneRead {
	f.t.Helper()
	f.startServers(records)
	zoneRead, err := f.reader().Read(f.t.Context(), "ann", "example.test", desiredRecords("example.test")...)
	if err != nil {
		f.t.Fatal(err)
	}
	return zoneRead
}

const emptyZone = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
`

func TestDependenciesOfAPlanAreRead(t *testing.T) {
	env := newFixture(t, delegation+`
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
	got := env.readForPlan(emptyZone + `
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
	want := dns.Referenced{
		SPF: map[string][]string{
			"spf.platform.test": {"v=spf1 include:more.platform.test -all"}, "more.platform.test": {"v=spf1 ip4:192.0.2.1 -all"},
			"a.test": {"not SPF include:c.test", "v=spf1 redirect=b.test"}, "b.test": {"v=spf1 include:a.test -all"}, "void.test": nil,
		},
		ParentDMARC: map[string][]string{"_dmarc.test": {"v=DMARC1; p=reject"}},
		Exchanges:   map[string]dns.MXProblem{"mx.alias.test": dns.MXProblemAlias, "mx.text.test": dns.MXProblemNoAddress, "mx.nobody.test": dns.MXProblemNoAddress},
		Keys:        map[string][]string{"key2.platform.test": {"v=DKIM1; p=abc"}},
	}
	if diff := cmp.Diff(want, got.Referenced); diff != "" || !got.Complete {
		t.Fatalf("got the reason %q, want a complete read; the dependencies (-want +got):\n%s", got.Reason, diff)
	}
	for question, n := range env.resolver.counts() {
		if n > 1 && question != "test. NS" {
			t.Errorf("%s was asked %d times, want once", question, n)
		}
	}
	if n := env.resolver.count("example-test.mx.platform.test. A") + env.resolver.count("key1.platform.test. TXT"); n > 0 {
		t.Errorf("%d questions were sent about example-test.mx.platform.test and key1.platform.test, want none", n)
	}
}

func TestReadIsIncompleteWithoutTheParentPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		zone       string
		wantReason string
	}{
		"without a policy":        {emptyZone, "type_unknown"},
		"with a policy":           {emptyZone + `_dmarc.example.test. 300 IN TXT "v=DMARC1; p=none"`, ""},
		"with an alias at _dmarc": {emptyZone + "_dmarc.example.test. 300 IN CNAME p.vendor.test.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := newFixture(t, delegation)
			env.resolver.failOn("_dmarc.test.")
			if got := env.readForPlan(tc.zone); got.Reason != tc.wantReason {
				t.Fatalf("got the reason %q, want %q", got.Reason, tc.wantReason)
			}
		})
	}
}

// TestFailingSPFNameIsAbsent checks that the result omits an SPF name for which the resolver fails.
// The read is complete nevertheless.
func TestFailingSPFNameIsAbsent(t *testing.T) {
	env := newFixture(t, delegation)
	env.resolver.failOn("spf.platform.test.")
	got := env.readForPlan(emptyZone)
	if _, exists := got.Referenced.SPF["spf.platform.test"]; exists || !got.Complete {
		t.Fatalf("got the reason %q and %v, want a complete read without the failing name", got.Reason, got.Referenced.SPF)
	}
}

func TestSPFTreeIsBounded(t *testing.T) {
	var wideRecord, deepRecords strings.Builder
	wideRecord.WriteString(`example.test. 300 IN TXT "v=spf1`)
	for i := range 80 { // more names than the limit of 50, and more levels than the limit of 10
		include := fmt.Sprintf(" include:n%d.test", i)
		if i%12 == 11 { // begins a new string, because a string has at most 255 bytes
			include = `" "` + include
		}
		wideRecord.WriteString(include)
		fmt.Fprintf(&deepRecords, "deep%d.test. 300 IN TXT \"v=spf1 include:deep%d.test -all\"\n", i, i+1)
	}
	wideRecord.WriteString(` -all"`)
	for _, tc := range []struct {
		name, zone   string
		maxQuestions int
	}{
		{"wide", wideRecord.String(), 50},
		{"deep", `example.test. 300 IN TXT "v=spf1 include:deep0.test -all"`, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newFixture(t, delegation+deepRecords.String())
			got := env.readForPlan(emptyZone + tc.zone)
			textQuestions := 0
			for question, n := range env.resolver.counts() {
				if strings.HasSuffix(question, " TXT") && !strings.HasPrefix(question, "_dmarc") {
					textQuestions += n
				}
			}
			if !got.Complete || textQuestions > tc.maxQuestions || textQuestions < 10 || len(got.Referenced.SPF) > tc.maxQuestions {
				t.Fatalf("got the reason %q, %d questions, %d names; want a complete read with 10 to %d questions", got.Reason, textQuestions, len(got.Referenced.SPF), tc.maxQuestions)
			}
		})
	}
}

func TestAtMostTenExchangesAreChecked(t *testing.T) {
	var mx strings.Builder
	for i := range 60 {
		fmt.Fprintf(&mx, "example.test. 300 IN MX 5 m%02d.test.\n", i)
	}
	env := newFixture(t, delegation)
	got := env.readForPlan(emptyZone + mx.String())
	if !got.Complete || len(got.Referenced.Exchanges) != 10 {
		t.Fatalf("got the reason %q, %d exchanges, want a complete read with 10", got.Reason, len(got.Referenced.Exchanges))
	}
}

// TestSlowServerDoesNotDelayDependencies uses three servers, of which one answers only after the
// resolver was asked for spf.platform.test. The reader must therefore begin to read dependencies
// before the slow server has answered.
func TestSlowServerDoesNotDelayDependencies(t *testing.T) {
	threeServers := emptyZone + "example.test. 300 IN NS ns3.example.test.\n"
	env := newFixture(t, delegation+"example.test. 300 IN NS ns3.example.test.\nns3.example.test. 300 IN A 127.0.0.4\n")
	queried := make(chan struct{})
	env.resolver.setChange(func(_, q *wire.Msg) {
		if q.Question[0].Name == "spf.platform.test." {
			close(queried)
		}
	})
	slow := newServer(t, threeServers)
	env.startServer("127.0.0.4", wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		select {
		case <-queried:
			slow.ServeDNS(w, q)
		case <-time.After(hangTimeout): // the reader waits for the slow server
		}
	}))
	got := env.readForPlan(threeServers)
	if !got.Complete || got.Warnings != nil || got.ServersAgreeing() != 3 {
		t.Fatalf("got the reason %q, warnings %v, servers %v; want a complete read of three servers that agree", got.Reason, got.Warnings, got.Servers)
	}
}
