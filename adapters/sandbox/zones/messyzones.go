// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"fmt"
	"strconv"
	"strings"
)

// MessyZone is a zone with existing records, for trying out a DNS plan.
type MessyZone struct {
	Name     string
	About    string
	Provider string
	lines    string
}

// MessyZones are the messy zones of a seeded sandbox. Each of the lines is a record: name, TTL,
// type and content. The name @ and the text {d} stand for the zone's name, and {long} stands for a
// long text. The content of an MX record begins with the preference. The type ~CNAME is a flattened
// CNAME.
var MessyZones = []MessyZone{
	{"messy-mx-google.test", "mail goes to Google", SeededProvider, "@ 3600 MX 1 smtp.google.com\n@ 3600 TXT v=spf1 include:_spf.{d} ~all\n_spf 3600 TXT v=spf1 ip4:192.0.2.0/24 -all\n@ 300 TXT google-site-verification=rXOxyZounnZasA8Z7oaD3c14JdjS9aKSWvsR1EbUSIQ"},
	{"messy-mx-null.test", "a null MX: the domain accepts no mail", SeededProvider, "@ 3600 MX 0 .\n@ 3600 TXT v=spf1 -all"},
	{"messy-mx-forwarding.test", "the registrar forwards the mail", registrarProvider, "@ 1800 MX 10 fwd1.{d}\n@ 1800 MX 20 fwd2.{d}\nfwd1 1800 A 192.0.2.31\nfwd2 1800 A 192.0.2.32"},
	{"messy-mx-broken.test", "the MX names a host that does not exist", SeededProvider, "@ 3600 MX 10 gone.{d}"},
	{"messy-spf-merge.test", "an SPF record of other senders, which a plan must merge", SeededProvider, "@ 600 TXT v=spf1 a ip4:192.0.2.7 ~all\n@ 600 A 192.0.2.7\nwww 600 CNAME {d}"},
	{"messy-spf-two.test", "two SPF records, so that neither is valid", SeededProvider, "@ 3600 TXT v=spf1 ip4:192.0.2.7 ~all\n@ 3600 TXT v=spf1 ip4:198.51.100.7 -all"},
	{"messy-spf-ten.test", "an SPF record that uses all ten DNS lookups", SeededProvider, "@ 3600 TXT v=spf1 a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} a:h.{d} ~all\nh 3600 A 192.0.2.8"},
	{"messy-spf-open.test", "an SPF record that allows everybody to send", registrarProvider, "@ 3600 TXT v=spf1 +all"},
	{"messy-spf-syntax.test", "an SPF record with a typing error", SeededProvider, "@ 3600 TXT v=spf1 ipv4:192.0.2.7 ~all"},
	{"messy-spf-long.test", "many long texts at the apex", SeededProvider, "@ 3600 TXT {long}a\n@ 3600 TXT {long}b\n@ 3600 TXT {long}c\n@ 3600 TXT v=spf1 ip4:192.0.2.1 -all"},
	{"messy-dkim-taken.test", "both selectors are aliases to another sender", SeededProvider, "selector1._domainkey 3600 CNAME s1.{d}\nselector2._domainkey 3600 CNAME s2.{d}\ns1 3600 TXT v=DKIM1; k=rsa; p=MIIB\ns2 3600 TXT v=DKIM1; k=rsa; p=MIIB"},
	{"messy-dkim-key.test", "a selector has a key where an alias belongs", SeededProvider, "selector1._domainkey 3600 TXT v=DKIM1; k=rsa; p=MIIB"},
	{"messy-dkim-delegated.test", "the selectors are delegated elsewhere", SeededProvider, "_domainkey 3600 NS ns1.elsewhere.example"},
	{"messy-dmarc-strict.test", "a strict DMARC policy, which a plan must keep", SeededProvider, "_dmarc 3600 TXT v=DMARC1; p=reject; adkim=s; aspf=s; rua=mailto:reports@{d}"},
	{"messy-dmarc-two.test", "two DMARC records, so that neither is valid", SeededProvider, "_dmarc 3600 TXT v=DMARC1; p=none\n_dmarc 3600 TXT v=DMARC1; p=reject"},
	{"messy-autodiscover.test", "the autodiscover record belongs to a different mail system", SeededProvider, "autodiscover 3600 CNAME mail.{d}\nmail 3600 A 192.0.2.9"},
	{"messy-wildcard.test", "a wildcard answers for every name", SeededProvider, "* 300 CNAME web.{d}\nweb 300 A 192.0.2.10"},
	{"messy-cname-apex.test", "an alias at the apex, for which the provider answers with addresses", SeededProvider, "@ 300 ~CNAME web.{d}\nweb 300 A 192.0.2.11"},
}

// Seed adds a messy zone. It does not change an existing zone, because a person may have edited its
// records.
func (s *Store) Seed(messy MessyZone) error {
	stored := storedZone{Provider: messy.Provider, Serial: 1, Records: []Record{}}
	for line := range strings.Lines(messy.lines) {
		if err := stored.addLine(messy, strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("zone %s: %q: %w", messy.Name, line, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.stored[messy.Name]; ok {
		return nil
	}
	return s.put(messy.Name, stored)
}

// addLine adds the record that one line describes.
func (stored *storedZone) addLine(messy MessyZone, line string) error {
	parts := strings.SplitN(strings.NewReplacer("{d}", messy.Name, "{long}", strings.Repeat("verification-", 30)).Replace(line), " ", 4)
	if len(parts) < 4 {
		return invalid("a record is a name, a TTL, a type and a content")
	}
	ttl, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	kind, flattened := strings.CutPrefix(parts[2], "~")
	r := Record{Type: kind, Name: messy.Name, TTL: ttl, Content: parts[3]}
	if parts[0] != "@" {
		r.Name = parts[0] + "." + messy.Name
	}
	if r.Type == "MX" {
		preference, host, _ := strings.Cut(r.Content, " ")
		n, err := strconv.Atoi(preference)
		if err != nil {
			return err
		}
		r.Priority, r.Content = &n, host
	}
	if flattened {
		stored.VeiledRecords = append(stored.VeiledRecords, VeiledRecord{r, Flattened})
		return nil
	}
	stored.Records = append(stored.Records, r)
	return nil
}
