// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

const defaultTTL = 3600

// graphRecord is a DNS record of any type, as Graph returns it. Its type is in @odata.type, which
// may begin with #, or in recordType. Case does not matter.
type graphRecord struct {
	ODataType  string `json:"@odata.type"`
	RecordType string `json:"recordType"`
	Label      string `json:"label"`
	Service    string `json:"supportedService"`
	TTL        int    `json:"ttl"`
	Text       string `json:"text"`
	Exchange   string `json:"mailExchange"`
	Preference int    `json:"preference"`
	Canonical  string `json:"canonicalName"`
}

// Records implements sdk.MailTenant. It omits service records that name a
// service other than Email.
func (c *tenantClient) Records(ctx context.Context, name string) (domain.Records, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	verification, err := c.listGraphRecords(ctx, name, "/domains/%s/verificationDnsRecords")
	if graph.Status(err) == http.StatusNotFound {
		return domain.Records{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	}
	if err != nil {
		return domain.Records{}, err
	}
	service, err := c.listGraphRecords(ctx, name, "/domains/%s/serviceConfigurationRecords")
	// Before the verification, the platform may refuse the request instead of answering with an
	// empty list.
	if status := graph.Status(err); status == http.StatusBadRequest || status == http.StatusNotFound {
		service, err = nil, nil
	}
	if err != nil {
		return domain.Records{}, err
	}
	records := domain.Records{Verification: toDNSRecords(name, verification)}
	for _, r := range service {
		if r.Service == "" || strings.EqualFold(r.Service, emailService) {
			records.Service = append(records.Service, toDNSRecords(name, []graphRecord{r})...)
		}
	}
	return records, nil
}

func (c *tenantClient) listGraphRecords(ctx context.Context, name, pathFormat string) ([]graphRecord, error) {
	return retryNotFound(ctx, c, func() ([]graphRecord, error) {
		return graph.List[graphRecord](ctx, c.graph, graph.PathWith(pathFormat, name), "")
	})
}

// toDNSRecords converts the TXT, MX and CNAME records of a domain. It omits records of other types
// and records without a value.
func toDNSRecords(domainName string, records []graphRecord) []dns.Record {
	var converted []dns.Record
	for _, r := range records {
		record := dns.Record{Name: recordName(domainName, r.Label), TTL: r.TTL}
		switch r.kind() {
		case "txt":
			record.Type, record.Content = dns.TXT, r.Text
		case "mx":
			record.Type, record.Content, record.Preference = dns.MX, hostName(r.Exchange), r.Preference
		case "cname":
			record.Type, record.Content = dns.CNAME, hostName(r.Canonical)
		}
		if record.TTL <= 0 {
			record.TTL = defaultTTL
		}
		if record.Content != "" {
			converted = append(converted, record)
		}
	}
	return converted
}

// kind returns the record's type in lower case.
func (r graphRecord) kind() string {
	kind := strings.ToLower(strings.TrimPrefix(r.ODataType, "#"))
	if found, ok := strings.CutPrefix(kind, "microsoft.graph.domaindns"); ok {
		return strings.TrimSuffix(found, "record")
	}
	return strings.ToLower(r.RecordType)
}

// recordName returns the full name of a record. Microsoft documents labels as full names. An empty
// label and @ stand for the domain itself. A label that does not end in the domain is relative to
// the domain.
func recordName(domainName, label string) string {
	host := hostName(label)
	switch {
	case host == "" || host == "@":
		return domainName
	case host == domainName || strings.HasSuffix(host, "."+domainName):
		return host
	default:
		return host + "." + domainName
	}
}

func hostName(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
}
