// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const dnsTimeout = 5 * time.Second

// proofRecord returns the record that proves that a tenant owns a domain. Each tenant has a
// different record.
func (t *tenant) proofRecord(domain string) record {
	sum := sha256.Sum256([]byte(t.ID + " " + domain))
	return record{Type: "TXT", Name: domain, Content: name + "-verification=" + hex.EncodeToString(sum[:8]), TTL: 3600}
}

// mailRecords returns the records that a domain needs for mail at the platform.
func mailRecords(domain string) []record {
	return []record{
		{Type: "MX", Name: domain, Content: dashedName(domain) + ".mx.mail.example", Priority: 10, TTL: 3600},
		{Type: "TXT", Name: domain, Content: "v=spf1 include:spf.mail.example -all", TTL: 3600},
	}
}

// signingRecords returns the records of both DKIM selectors.
func signingRecords(domain string) []record {
	var records []record
	for _, selector := range []string{"selector1", "selector2"} {
		records = append(records, record{
			Type: "CNAME", Name: selector + "._domainkey." + domain, Content: selector + "-" + dashedName(domain) + "._domainkey.dkim.mail.example", TTL: 3600,
		})
	}
	return records
}

// ownZones are the zones of the platform to which the records of customers refer. The DNS server of
// the sandbox serves these zones. The address is reserved for documentation (RFC 5737), and the
// private DKIM key was deleted.
var ownZones = map[string][]simulate.Record{"mail.example": {
	{Type: "A", Name: "*.mx.mail.example", Content: "192.0.2.25", TTL: 300},
	{Type: "TXT", Name: "spf.mail.example", Content: "v=spf1 ip4:192.0.2.0/24 -all", TTL: 300},
	{Type: "TXT", Name: "*.dkim.mail.example", Content: "v=DKIM1; k=ed25519; p=aj1mV3WgyL5VthediI+SF4nlJvWc4V/ucdHbiPiVrYA=", TTL: 300},
}}

func dashedName(domain string) string { return strings.ReplaceAll(domain, ".", "-") }

// isPublished reports whether the DNS has a record. If the DNS server does not answer, the record
// counts as missing.
func (s *simulator) isPublished(ctx context.Context, r record) bool {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	server, err := s.dnsServer(ctx)
	if err != nil {
		return false
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	if r.Type == "CNAME" {
		target, err := resolver.LookupCNAME(ctx, r.Name+".")
		return err == nil && strings.EqualFold(strings.TrimSuffix(target, "."), r.Content)
	}
	texts, err := resolver.LookupTXT(ctx, r.Name+".")
	return err == nil && slices.Contains(texts, r.Content)
}

// dnsServer returns the address of the DNS server. It asks the sandbox or the conformance suite, at
// the URL of simulate.Options.World.
func (s *simulator) dnsServer(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.kit.World+"/dns", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Addr string `json:"addr"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Addr, err
}
