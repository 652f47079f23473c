// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

const dnsTimeout = 5 * time.Second

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
	return answer.Addr, json.NewDecoder(resp.Body).Decode(&answer)
}
