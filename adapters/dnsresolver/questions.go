// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import wire "github.com/miekg/dns"

// asked is one question and those to ask when it finds nothing.
type asked struct {
	question
	otherwise []question
}

// questions lists what is asked about a domain beside the SOA. A selector
// without a CNAME may hold a key made by hand, or be flattened by the
// provider; autodiscover may be an address.
func questions(apex, name string) []asked {
	one, two := "selector1._domainkey."+name, "selector2._domainkey."+name
	auto := "autodiscover." + name
	return []asked{
		{question: question{apex, wire.TypeNS}},
		{question: question{name, wire.TypeMX}},
		{question: question{name, wire.TypeTXT}},
		{question: question{name, wire.TypeCNAME}},
		{question: question{"_dmarc." + name, wire.TypeTXT}},
		{question{one, wire.TypeCNAME}, []question{{one, wire.TypeTXT}}},
		{question{two, wire.TypeCNAME}, []question{{two, wire.TypeTXT}}},
		{question{auto, wire.TypeCNAME}, []question{{auto, wire.TypeA}, {auto, wire.TypeAAAA}}},
	}
}
