// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	wire "github.com/miekg/dns"
)

// Limits on one answer, because the owner of the domain controls its content.
const (
	maxRecords = 500
	maxCNAMEs  = 8
)

var errTooManyRecords = errors.New("the record set has too many records")

// parsedAnswer is the content of the answer to one question.
type parsedAnswer struct {
	values []string // in canonical form, sorted, without duplicate records
	ttl    int
	// alias is the target of the CNAME record at the name of the question, "" if there is none.
	// aliasTTL is the TTL of the CNAME.
	alias    string
	aliasTTL int
	// pendingTarget is the last CNAME target, if the answer has no records of this target and does
	// not state that there are none. The caller must look it up. Otherwise pendingTarget is "".
	pendingTarget string
}

// parseAnswer returns the content of m, the answer to q. If the question is not about CNAME or NS,
// it follows the CNAMEs in the answer. It returns errTooManyRecords if the record set has more than
// maxRecords records.
func parseAnswer(m *wire.Msg, q question) (parsedAnswer, error) {
	var parsed parsedAnswer
	owner := q.name
	if q.qtype != wire.TypeCNAME && q.qtype != wire.TypeNS {
		parsed, owner = followAliases(m, q.name)
	}
	for i, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != q.qtype || h.Class != wire.ClassINET || canonicalName(h.Name) != owner || owner == "" {
			continue
		}
		// A TXT record is dropped only if an earlier record is an exact duplicate. If two records
		// split the same text into different strings, receivers of mail see two records.
		isDuplicate := func(other wire.RR) bool { return wire.IsDuplicate(other, rr) }
		if q.qtype == wire.TypeTXT && slices.ContainsFunc(m.Answer[:i], isDuplicate) {
			continue
		}
		if len(parsed.values) == maxRecords {
			return parsedAnswer{}, errTooManyRecords
		}
		if len(parsed.values) == 0 || int(h.Ttl) < parsed.ttl {
			parsed.ttl = int(h.Ttl)
		}
		parsed.values = append(parsed.values, canonicalContent(rr))
	}
	sortValues(parsed.values, q.qtype)
	if q.qtype != wire.TypeTXT {
		parsed.values = slices.Compact(parsed.values)
	}
	if parsed.alias != "" && len(parsed.values) == 0 && !isNegative(m) {
		parsed.pendingTarget = owner
	}
	return parsed, nil
}

// isNegative reports whether m states that no record exists. A negative answer has an SOA record in
// its authority section.
func isNegative(m *wire.Msg) bool {
	return slices.ContainsFunc(m.Ns, func(rr wire.RR) bool { return rr.Header().Rrtype == wire.TypeSOA })
}

// followAliases follows the CNAMEs from name. It returns the alias at name and the last target. The
// last target is "" if the CNAMEs form a loop or are more than maxCNAMEs.
func followAliases(m *wire.Msg, name string) (parsedAnswer, string) {
	var parsed parsedAnswer
	targets := map[string]*wire.CNAME{}
	for _, rr := range m.Answer {
		if c, ok := rr.(*wire.CNAME); ok && c.Hdr.Class == wire.ClassINET {
			targets[canonicalName(c.Hdr.Name)] = c
		}
	}
	if c, ok := targets[name]; ok {
		parsed.alias, parsed.aliasTTL = canonicalName(c.Target), int(c.Hdr.Ttl)
	}
	for range maxCNAMEs + 1 {
		c, ok := targets[name]
		if !ok {
			return parsed, name
		}
		name = canonicalName(c.Target)
	}
	return parsed, ""
}

// canonicalContent returns the data of a record as text. Equal data gives equal text.
func canonicalContent(rr wire.RR) string {
	switch rr := rr.(type) {
	case *wire.TXT:
		return txtContent(rr.Txt)
	case *wire.MX:
		return fmt.Sprintf("%d %s", rr.Preference, displayName(rr.Mx))
	case *wire.CNAME:
		return displayName(rr.Target)
	case *wire.NS:
		return displayName(rr.Ns)
	case *wire.SOA:
		return fmt.Sprintf("%s %s %d %d %d %d %d", displayName(rr.Ns), displayName(rr.Mbox), rr.Serial, rr.Refresh, rr.Retry, rr.Expire, rr.Minttl)
	case *wire.A:
		return rr.A.String()
	case *wire.AAAA:
		return rr.AAAA.String()
	default:
		return ""
	}
}

// sortValues sorts MX values by preference first.
func sortValues(values []string, qtype uint16) {
	slices.SortFunc(values, func(a, b string) int {
		if qtype == wire.TypeMX {
			if d := mxPreference(a) - mxPreference(b); d != 0 {
				return d
			}
		}
		return strings.Compare(a, b)
	})
}

// soa holds the fields of an SOA record that identify the version and the provider of a zone.
type soa struct{ primary, mailbox, serial string }

// parseSOA parses an SOA value that canonicalContent returned.
func parseSOA(value string) soa {
	f := append(strings.Fields(value), "", "", "")
	return soa{f[0], f[1], f[2]}
}

func mxPreference(mx string) int {
	number, _, _ := strings.Cut(mx, " ")
	n, _ := strconv.Atoi(number)
	return n
}

// canonicalName returns a name in lower case and without the final dot. The root becomes "".
func canonicalName(name string) string {
	return strings.TrimSuffix(wire.CanonicalName(name), ".")
}

// displayName returns canonicalName(name), but "." for the root, so that a null MX record does not
// look empty. Record values in dns.ZoneRead use this form.
func displayName(name string) string {
	if p := canonicalName(name); p != "" {
		return p
	}
	return "."
}

// txtContent joins the strings of a TXT record into one text. parts are in the presentation format
// of package miekg/dns, where \DDD and \c stand for one byte.
func txtContent(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		for i := 0; i < len(p); i++ {
			if p[i] != '\\' || i+1 == len(p) {
				b.WriteByte(p[i])
				continue
			}
			if v, ok := decimalEscape(p[i+1:]); ok {
				b.WriteByte(v)
				i += 3
				continue
			}
			i++
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

// decimalEscape parses the three digits of a \DDD escape.
func decimalEscape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s[:3]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n < 256
}
