// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// messy is a zone with a past, and what is to become of it. Records are lines
// of name, TTL, type and content; {d} stands for the domain, {d-} for the same
// with dashes, {spf} for the mail platform's include. A text that begins with
// a quote is written as zone files have it, another one is taken as it is.
type messy struct {
	name string // the zone is name.messy.test
	at   string // where in the zone the domain is, "" for its apex
	past string
	// want says what a plan does by purpose: "action reason", then "blocking"
	// and the notes with a plus. What is not mentioned is missing and created.
	want map[dns.Purpose]string
	// gone are the lines of past that give way to those of come. What is
	// created need not be there.
	gone, come string
	only       string // the one provider that can hold it
	// hidden says that what the provider lists differs from what it answers,
	// and makes another plan.
	hidden bool
}

func (m messy) zone() string { return m.name + ".messy.test" }

func (m messy) domain() string {
	if m.at != "" {
		return m.at + "." + m.zone()
	}
	return m.zone()
}

// zoneLine is one record, as a provider's user writes it.
type zoneLine struct {
	name string
	ttl  int
	of   dns.Type
	text string // as in messy
}

// bare is the text without what only Cloudflare makes of it.
func (l zoneLine) bare() string {
	return strings.TrimSuffix(strings.TrimSuffix(l.text, flattened), shielded)
}

// value is the content as dns.RRSet has it.
func (l zoneLine) value() string {
	text := l.bare()
	if l.of == dns.TXT && !strings.HasPrefix(text, `"`) {
		return text
	}
	value, err := sdk.ReadContent(l.of, text)
	if err != nil {
		panic(fmt.Sprint(l, ": ", err))
	}
	if l.of == dns.MX || l.of == dns.CNAME || l.of == dns.NS {
		value = strings.ToLower(value)
	}
	return value
}

func (l zoneLine) String() string { return fmt.Sprint(l.place(), " ", l.ttl, " ", l.value()) }

func (l zoneLine) place() string { return strings.ToLower(l.name) + " " + string(l.of) }

// lines reads the records of a zone.
func (m messy) lines(text string) []zoneLine {
	dashes := strings.ReplaceAll(m.domain(), ".", "-")
	return linesOf(m.zone(), strings.NewReplacer("{d}", m.domain(), "{d-}", dashes, "{spf}", platformInclude).Replace(text))
}

func linesOf(zone, text string) []zoneLine {
	var out []zoneLine
	for row := range strings.Lines(text) {
		if row = strings.TrimRight(strings.TrimLeft(row, "\t"), "\n"); row == "" {
			continue
		}
		parts := strings.SplitN(row, " ", 4)
		ttl, err := strconv.Atoi(parts[1])
		if err != nil || len(parts) != 4 {
			panic(row)
		}
		name := zone
		if parts[0] != "@" {
			name = parts[0] + "." + name
		}
		out = append(out, zoneLine{name, ttl, dns.Type(parts[2]), parts[3]})
	}
	return out
}

// expected is an item of the plan in a messy zone's words.
func (m messy) expected(of dns.Purpose) string { return cmp.Or(m.want[of], "create missing") }

func verdictOf(i dns.Item) string {
	words := []string{string(i.Action), string(i.Reason)}
	if i.Blocking {
		words = append(words, "blocking")
	}
	for _, note := range i.Notes {
		words = append(words, "+"+string(note))
	}
	return strings.Join(words, " ")
}

// blocked reports whether anything blocks, so that nothing may be written.
func (m messy) blocked() bool {
	for _, want := range m.want {
		if strings.Contains(want, " blocking") {
			return true
		}
	}
	return false
}

// afterwards is the zone as it is to be in the end.
func (m messy) afterwards() []zoneLine {
	past := m.lines(m.past)
	if m.blocked() {
		return past
	}
	gone, come := m.lines(m.gone), m.lines(m.come)
	out := slices.DeleteFunc(past, func(l zoneLine) bool { return slices.Contains(gone, l) })
	out = append(out, come...)
	for _, d := range dns.Desire(m.domain(), m.offer()) {
		if !strings.HasPrefix(m.expected(d.Purpose), "create") {
			continue
		}
		made := zoneLine{d.Name, 3600, d.Type, d.Content}
		if d.Type == dns.MX {
			made.text = fmt.Sprint(d.Preference, " ", d.Content)
		}
		// A set that is there keeps its TTL.
		if i := slices.IndexFunc(out, func(l zoneLine) bool { return l.place() == made.place() }); i >= 0 {
			made.ttl = out[i].ttl
		}
		out = append(out, made)
	}
	return out
}

const platformInclude = "include:spf.protection.outlook.com"

// offer is what the mail platform says of the domain.
func (m messy) offer() dns.Offer {
	d := m.domain()
	dashes := strings.ReplaceAll(d, ".", "-")
	key := func(selector string) dns.Record {
		return dns.Record{Type: dns.CNAME, Name: selector + "._domainkey." + d, TTL: 3600,
			Content: selector + "-" + dashes + "._domainkey.contoso.r-v1.dkim.mail.microsoft"}
	}
	return dns.Offer{
		Verification: []dns.Record{
			{Type: dns.TXT, Name: d, Content: "MS=ms12345678", TTL: 3600},
			{Type: dns.MX, Name: d, Content: "ms12345678.msv1.invalid", Preference: 32767, TTL: 3600},
		},
		Service: []dns.Record{
			{Type: dns.MX, Name: d, Content: dashes + ".r4nd.mx.microsoft", TTL: 3600},
			{Type: dns.TXT, Name: d, Content: "v=spf1 " + platformInclude + " -all", TTL: 3600},
			{Type: dns.CNAME, Name: "autodiscover." + d, Content: "autodiscover.outlook.com", TTL: 3600},
		},
		Signing: dns.Signing{Selector1: key("selector1"), Selector2: key("selector2")},
	}
}
