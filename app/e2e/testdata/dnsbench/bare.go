// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// barePlan sends the DNS queries of plan. Of the answers it checks only the response code.
func barePlan(ctx context.Context, in input) (figures, error) {
	seconds, err := forEachDomain(in.Domains, planners, func(_ int, w domainOffer) error {
		d := w.Domain + "."
		for _, q := range []struct {
			name      string
			queryType uint16
		}{
			{d, wire.TypeSOA}, {d, wire.TypeSOA}, {d, wire.TypeNS}, {"_dmarc.messy.test.", wire.TypeTXT}, {"_dmarc.test.", wire.TypeTXT},
			{"_spf.elsewhere.test.", wire.TypeTXT}, {"spf.protection.outlook.com.", wire.TypeTXT},
		} {
			if err := query(ctx, in.Resolver, q.name, q.queryType, true); err != nil {
				return err
			}
		}
		for _, server := range []string{"127.0.0.1", "127.0.0.2"} {
			for _, q := range []struct {
				name      string
				queryType uint16
			}{
				{d, wire.TypeSOA}, {d, wire.TypeNS}, {d, wire.TypeMX}, {d, wire.TypeTXT}, {"_dmarc." + d, wire.TypeTXT},
				{"selector1._domainkey." + d, wire.TypeCNAME}, {"selector2._domainkey." + d, wire.TypeCNAME}, {"autodiscover." + d, wire.TypeCNAME},
			} {
				if err := query(ctx, fmt.Sprint(server, ":", in.Port), q.name, q.queryType, false); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return figures{Seconds: seconds}, err
}

// query sends one DNS query with EDNS. It fails for a response code other than NOERROR and
// NXDOMAIN.
func query(ctx context.Context, server, name string, queryType uint16, recursive bool) error {
	m := new(wire.Msg).SetQuestion(name, queryType)
	m.RecursionDesired = recursive
	m.SetEdns0(1232, false)
	answer, _, err := new(wire.Client).ExchangeContext(ctx, m, server)
	if err == nil && answer.Rcode != wire.RcodeSuccess && answer.Rcode != wire.RcodeNameError {
		err = fmt.Errorf("%s %s", name, wire.RcodeToString[answer.Rcode])
	}
	return err
}

// bareApply makes the API calls of apply: find the zone, read it twice, write it and read it again.
func bareApply(ctx context.Context, in input) (figures, error) {
	seconds, err := forEachDomain(in.Domains, writers, func(_ int, w domainOffer) error {
		zone := "/" + w.Domain + "."
		for _, path := range []string{zone + "?rrset_name=" + w.Domain + ".&rrset_type=NS", zone, zone} {
			if _, err := callAPI(ctx, in, http.MethodGet, path, nil); err != nil {
				return err
			}
		}
		if _, err := callAPI(ctx, in, http.MethodPatch, zone, map[string]any{"rrsets": bareSets(w)}); err != nil {
			return err
		}
		now, err := callAPI(ctx, in, http.MethodGet, zone, nil)
		if err == nil && !bytes.Contains(now, []byte("selector2._domainkey")) {
			err = fmt.Errorf("the zone has no record selector2._domainkey after the write: %s", now)
		}
		return err
	})
	return figures{Seconds: seconds}, err
}

// bareSets returns the record sets of the wanted records, in the format of the server's API.
func bareSets(w domainOffer) []map[string]any {
	var sets []map[string]any
	setIndex := map[string]int{}
	for _, d := range dns.DesiredRecords(w.Domain, w.Offer) {
		content := d.Content + "."
		switch d.Type {
		case dns.TXT:
			content = `"` + d.Content + `"`
		case dns.MX:
			content = fmt.Sprint(d.Preference, " ", content)
		}
		key := d.Name + string(d.Type)
		if _, exists := setIndex[key]; !exists {
			setIndex[key] = len(sets)
			sets = append(sets, map[string]any{"name": d.Name + ".", "type": d.Type, "ttl": 3600, "changetype": "REPLACE", "records": []any{}})
		}
		set := sets[setIndex[key]]
		set["records"] = append(set["records"].([]any), map[string]any{"content": content})
	}
	return sets
}

// callAPI calls the API of the server and returns the body of the response.
func callAPI(ctx context.Context, in input, method, path string, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, in.API+"/api/v1/servers/localhost/zones"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-API-Key", in.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	out, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s %s", method, strings.TrimSuffix(path, "."), answer.Status, out)
	}
	return out, err
}
