// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  m
		records []string // %TOKEN% is the token
		golden  string   // "" for success
	}{
		{"record missing", nil, nil, "graph-verification-failed"},
		{"record wrong", nil, []string{`TXT "MS=ms00000000"`}, "graph-verification-failed"},
		{"record of another kind", nil, []string{`TXT "v=spf1 -all"`}, "graph-verification-failed"},
		{"TXT record", nil, []string{`TXT "MS=%TOKEN%"`}, ""},
		{"TXT among many, over TCP", nil, []string{`TXT "1"`, `TXT "2"`, `TXT "3"`, `TXT "4"`, `TXT "MS=%TOKEN%"`}, ""},
		{"TXT in two strings", nil, []string{`TXT "MS=" "%TOKEN%"`}, ""},
		{"the MX alternative", nil, []string{`MX 32767 %TOKEN%.msv1.invalid.`}, ""},
		{"owned elsewhere", m{"elsewhere": []string{domain}}, []string{`TXT "MS=%TOKEN%"`}, "graph-verified-elsewhere"},
		{"owned elsewhere, record missing", m{"elsewhere": []string{domain}}, nil, "graph-verified-elsewhere"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			if tt.before != nil {
				tn.behave(tt.before)
			}
			tn.graph("POST", "/domains", m{"id": domain})
			text := tn.graph("GET", "/domains/"+domain+"/verificationDnsRecords", nil).at("value", 0, "text").(string)
			for _, r := range tt.records {
				tn.world.publish(domain + ". 60 IN " + strings.ReplaceAll(r, "%TOKEN%", strings.TrimPrefix(text, "MS=")))
			}
			a := tn.graph("POST", "/domains/"+domain+"/verify", m{"forceTakeover": false})
			if tt.golden != "" {
				golden(t, tt.golden, a)
			} else if a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
}

func TestVerifyAgain(t *testing.T) {
	tn := start(t).connected()
	tn.addDomain(domain)
	golden(t, "graph-already-verified", tn.graph("POST", "/domains/"+domain+"/verify", nil))
	golden(t, "graph-not-found", tn.graph("POST", "/domains/other.example/verify", nil))
}

// TestVerifiedInAnotherTenant: adding works, verifying does not, whether the
// record is there or not.
func TestVerifiedInAnotherTenant(t *testing.T) {
	s := start(t)
	one, two := s.connected(), s.connected()
	one.addDomain(domain)
	if a := two.graph("POST", "/domains", m{"id": domain}); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	golden(t, "graph-verified-elsewhere", two.graph("POST", "/domains/"+domain+"/verify", nil))
	two.publishProof(domain)
	golden(t, "graph-verified-elsewhere", two.graph("POST", "/domains/"+domain+"/verify", nil))
}

// TestNegativeCache: a record that was missing is not seen until the resolvers
// forget that.
func TestNegativeCache(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"dns_negative_ms": 30_000})
	tn.graph("POST", "/domains", m{"id": domain})
	golden(t, "graph-verification-failed", tn.graph("POST", "/domains/"+domain+"/verify", nil))
	tn.publishProof(domain)
	golden(t, "graph-verification-failed", tn.graph("POST", "/domains/"+domain+"/verify", nil))
	tn.control("POST", "/clock", m{"advance": "31s"})
	if a := tn.graph("POST", "/domains/"+domain+"/verify", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
