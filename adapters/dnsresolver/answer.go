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

// Limits on one answer. The owner of the domain controls what it contains.
const (
	maxRecords = 500
	maxCNAMEs  = 8
)

var errTooManyRecords = errors.New("more records than a set may have")

// parsedAnswer is the content of one answer to a question.
type parsedAnswer struct {
	values []string // in canonical form, sorted, without duplicate records
	ttl    int
	alias  string // the target of the CNAME at the name of the question, "" if there is none
	// aliasTTL is the TTL of that CNAME.
	aliasTTL int
	// pendingTarget is the last CNAME target when the answer does not say whether it has records;
	// otherwise "".
	pendingTarget string
}

// parseAnswer returns the content of the answer to q. It follows the CNAMEs that the answer holds,
// except for questions about CNAME and NS. It fails with errTooManyRecords above maxRecords.
func parseAnswer(m *wire.Msg, q question) (parsedAnswer, error) {
	var v parsedAnswer
	owner := q.name
	if q.qtype != wire.TypeCNAME && q.qtype != wire.TypeNS {
		v, owner = followAliases(m, q.name)
	}
	for i, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != q.qtype || h.Class != wire.ClassINET || canonicalName(h.Name) != owner || owner == "" {
			continue
		}
		// TXT records with the same text that is split differently stay two records, because
		// receivers of mail also see two. Only exact duplicates are dropped.
		same := func(other wire.RR) bool { return wire.IsDuplicate(other, rr) }
		if q.qtype == wire.TypeTXT && slices.ContainsFunc(m.Answer[:i], same) {
			continue
		}
		if len(v.values) == maxRecords {
			return parsedAnswer{}, errTooManyRecords
		}
		if len(v.values) == 0 || int(h.Ttl) < v.ttl {
			v.ttl = int(h.Ttl)
		}
		v.values = append(v.values, canonicalContent(rr))
	}
	sortValues(v.values, q.qtype)
	if q.qtype != wire.TypeTXT {
		v.values = slices.Compact(v.values)
	}
	if v.alias != "" && len(v.values) == 0 && !isNegative(m) {
		v.pendingTarget = owner
	}
	return v, nil
}

// isNegative reports whether m states that no record exists: negative answers carry an SOA record.
func isNegative(m *wire.Msg) bool {
	return slices.ContainsFunc(m.Ns, func(rr wire.RR) bool { return rr.Header().Rrtype == wire.TypeSOA })
}

// followAliases follows the CNAMEs from name and returns the last target. It returns "" for a loop
// or for more than maxCNAMEs CNAMEs.
func followAliases(m *wire.Msg, name string) (parsedAnswer, string) {
	var v parsedAnswer
	targets := map[string]*wire.CNAME{}
	for _, rr := range m.Answer {
		if c, ok := rr.(*wire.CNAME); ok && c.Hdr.Class == wire.ClassINET {
			targets[canonicalName(c.Hdr.Name)] = c
		}
	}
	if c, ok := targets[name]; ok {
		v.alias, v.aliasTTL = canonicalName(c.Target), int(c.Hdr.Ttl)
	}
	for range maxCNAMEs + 1 {
		c, ok := targets[name]
		if !ok {
			return v, name
		}
		name = canonicalName(c.Target)
	}
	return v, ""
}

// canonicalContent returns the data of a record in the form in which sets are compared.
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

// sortValues sorts values. MX values are sorted by preference first.
func sortValues(values []string, qtype uint16) {
	slices.SortFunc(values, func(a, b string) int {
		if qtype == wire.TypeMX {
			if d := preference(a) - preference(b); d != 0 {
				return d
			}
		}
		return strings.Compare(a, b)
	})
}

// soa holds the fields of an SOA record that tell the version and the provider of a zone.
type soa struct{ primary, mailbox, serial string }

// parseSOA parses an SOA record in the form of canonicalContent.
func parseSOA(value string) soa {
	f := append(strings.Fields(value), "", "", "")
	return soa{f[0], f[1], f[2]}
}

func preference(mx string) int {
	number, _, _ := strings.Cut(mx, " ")
	n, _ := strconv.Atoi(number)
	return n
}

// canonicalName returns a name in the form that is compared: lower case, without the final dot, ""
// for the root.
func canonicalName(name string) string {
	return strings.TrimSuffix(wire.CanonicalName(name), ".")
}

// displayName returns a name in the form of dns.ZoneRead: like canonicalName, but "." for the root, as
// in a null MX.
func displayName(name string) string {
	if p := canonicalName(name); p != "" {
		return p
	}
	return "."
}

// txtContent returns the bytes of a TXT record. Package miekg/dns holds its strings in presentation
// format, where \DDD and \c stand for one byte.
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
