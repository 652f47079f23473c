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

// dnsRecord is a record of any type. Which one it is stands in @odata.type,
// with or without a leading #, and in recordType, in one case or another.
type dnsRecord struct {
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

// Records implements sdk.MailTenant. The service records are the platform's
// e-mail ones as it names them; no target is ever computed.
func (c *client) Records(ctx context.Context, name string) (domain.Records, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	verification, err := c.records(ctx, name, "/domains/%s/verificationDnsRecords")
	if graph.Status(err) == http.StatusNotFound {
		return domain.Records{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	}
	if err != nil {
		return domain.Records{}, err
	}
	service, err := c.records(ctx, name, "/domains/%s/serviceConfigurationRecords")
	// Before verification the platform may refuse rather than answer nothing.
	if status := graph.Status(err); status == http.StatusBadRequest || status == http.StatusNotFound {
		service, err = nil, nil
	}
	if err != nil {
		return domain.Records{}, err
	}
	out := domain.Records{Verification: readRecords(name, verification)}
	for _, r := range service {
		if r.Service == "" || equalFold(r.Service, emailService) {
			out.Service = append(out.Service, readRecords(name, []dnsRecord{r})...)
		}
	}
	return out, nil
}

func (c *client) records(ctx context.Context, name, form string) ([]dnsRecord, error) {
	return afterLag(ctx, c, func() ([]dnsRecord, error) {
		return graph.List[dnsRecord](ctx, c.graph, graph.At(form, name), "")
	})
}

// readRecords reads the records of the types that mail uses.
func readRecords(name string, all []dnsRecord) []dns.Record {
	var out []dns.Record
	for _, r := range all {
		read := dns.Record{Name: label(name, r.Label), TTL: r.TTL}
		switch r.kind() {
		case "txt":
			read.Type, read.Content = dns.TXT, r.Text
		case "mx":
			read.Type, read.Content, read.Preference = dns.MX, host(r.Exchange), r.Preference
		case "cname":
			read.Type, read.Content = dns.CNAME, host(r.Canonical)
		}
		if read.TTL <= 0 {
			read.TTL = defaultTTL
		}
		if read.Content != "" {
			out = append(out, read)
		}
	}
	return out
}

// kind is the record's type in lower case.
func (r dnsRecord) kind() string {
	kind := strings.ToLower(strings.TrimPrefix(r.ODataType, "#"))
	if found, ok := strings.CutPrefix(kind, "microsoft.graph.domaindns"); ok {
		return strings.TrimSuffix(found, "record")
	}
	return strings.ToLower(r.RecordType)
}

// label is the record's full name. Labels are documented as full names; a bare
// one, or @, is read as one below the domain.
func label(name, text string) string {
	l := host(text)
	switch {
	case l == "" || l == "@":
		return name
	case l == name || strings.HasSuffix(l, "."+name):
		return l
	default:
		return l + "." + name
	}
}

func host(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
}
