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

// cnameChain returns a chain of CNAME records from _dmarc.example.test to a TXT record. cnames is
// the number of CNAME records.
func cnameChain(cnames int) string {
	var records strings.Builder
	for i := range cnames {
		alias := fmt.Sprintf("c%d.example.test.", i)
		if i == 0 {
			alias = "_dmarc.example.test."
		}
		fmt.Fprintf(&records, "%s 300 IN CNAME c%d.example.test.\n", alias, i+1)
	}
	fmt.Fprintf(&records, "c%d.example.test. 300 IN TXT \"v=DMARC1; p=end\"\n", cnames)
	return records.String()
}

func TestCNAMEsAreFollowed(t *testing.T) {
	zoneWithoutPolicy := strings.ReplaceAll(standardZone, `_dmarc.example.test. 300 IN TXT "v=DMARC1; p=none"`, "")
	for _, tc := range []struct {
		name, records, wantTarget string
		wantTexts                 []string
	}{
		{"inside the zone", cnameChain(1), "c1.example.test", []string{"v=DMARC1; p=end"}},
		{"through eight CNAMEs", cnameChain(8), "c1.example.test", []string{"v=DMARC1; p=end"}},
		{"through nine CNAMEs, which are too many", cnameChain(9), "c1.example.test", nil},
		{"in a loop", "_dmarc.example.test. 300 IN CNAME c1.example.test.\nc1.example.test. 300 IN CNAME _dmarc.example.test.\n", "c1.example.test", nil},
		{"to itself", "_dmarc.example.test. 300 IN CNAME _dmarc.example.test.\n", "_dmarc.example.test", nil},
		{"out of the zone, to a name that the resolver finds", "_dmarc.example.test. 300 IN CNAME p.vendor.test.\n", "p.vendor.test", []string{"v=DMARC1; p=vendor"}},
		{"out of the zone, to a name that does not exist", "_dmarc.example.test. 300 IN CNAME q.vendor.test.\n", "q.vendor.test", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newFixture(t, delegation+"p.vendor.test. 300 IN TXT \"v=DMARC1; p=vendor\"\n")
			env.startServers(zoneWithoutPolicy + tc.records)
			got := env.read("example.test")
			if !got.Complete {
				t.Fatalf("got the reason %q, want a complete read", got.Reason)
			}
			if diff := cmp.Diff([]string{tc.wantTarget}, values(got, "_dmarc.example.test", dns.CNAME)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.wantTexts, values(got, "_dmarc.example.test", dns.TXT)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTargetIsUnansweredOnlyIfNoResolverResponds checks names that are read from the resolvers: the
// target of a CNAME, and a delegated name. The read is complete if the resolver returns an error
// code for such a name, and incomplete if the resolver does not respond.
func TestTargetIsUnansweredOnlyIfNoResolverResponds(t *testing.T) {
	zoneWithoutPolicy := strings.ReplaceAll(standardZone, `_dmarc.example.test. 300 IN TXT "v=DMARC1; p=none"`, "")
	referral := changingHandler(t, func(msg, q *wire.Msg) {
		if strings.HasPrefix(q.Question[0].Name, "_dmarc.") {
			msg.Authoritative, msg.Answer = false, nil
			msg.Ns = []wire.RR{&wire.NS{Hdr: wire.RR_Header{Name: "_dmarc.example.test.", Rrtype: wire.TypeNS, Class: wire.ClassINET}, Ns: "ns.vendor.test."}}
		}
	})
	aliasServer := newServer(t, zoneWithoutPolicy+"_dmarc.example.test. 300 IN CNAME p.vendor.test.\n")
	for _, tc := range []struct {
		name, target string
		servers      wire.Handler
		silent       bool
		wantReason   string
	}{
		{"the resolver fails for the target of a CNAME", "p.vendor.test.", aliasServer, false, ""},
		{"the resolver fails for a delegated name", "_dmarc.example.test.", referral, false, ""},
		{"the resolver is silent about the target of a CNAME", "p.vendor.test.", aliasServer, true, "type_unknown"},
		{"the resolver is silent about a delegated name", "_dmarc.example.test.", referral, true, "type_unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			env := newFixture(t, delegation)
			env.resolver.setChange(func(msg, q *wire.Msg) {
				if q.Question[0].Name != tc.target {
					return
				}
				if msg.SetRcode(q, wire.RcodeServerFailure); tc.silent {
					msg.Id++ // a wrong id, so the answer is ignored
				}
			})
			env.startServer("127.0.0.2", tc.servers)
			env.startServer("127.0.0.3", tc.servers)
			checkRead := func() error {
				if got := env.read("example.test"); got.Reason != tc.wantReason || got.Complete != (tc.wantReason == "") {
					return fmt.Errorf("got the reason %q, complete %v, want the reason %q", got.Reason, got.Complete, tc.wantReason)
				}
				return nil
			}
			if tc.silent {
				eachTimeout(t, func(timeout time.Duration) error { env.questionTimeout = timeout; return checkRead() })
			} else if err := checkRead(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
