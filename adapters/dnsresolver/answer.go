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

// Caps on what one answer may hold: it is a stranger who writes it.
const (
	maxRecords = 500
	maxLinks   = 8
)

var errTooMany = errors.New("more records than a set may have")

// view is what one answer says about a question.
type view struct {
	values []string // canonical, sorted, no record twice
	ttl    int
	alias  string // where the asked name points, when it is a CNAME
	// aliasTTL is the TTL of that CNAME.
	aliasTTL int
	// open is the name at the end of the aliases when the answer says
	// nothing about it; "" when there is nothing to follow.
	open string
}

// look reads the answer to q, following aliases as far as the answer holds
// them. Questions for CNAME and NS are about the name itself and follow nothing.
func look(m *wire.Msg, q question) (view, error) {
	var v view
	owner := q.name
	if q.qtype != wire.TypeCNAME && q.qtype != wire.TypeNS {
		v, owner = follow(m, q.name)
	}
	for i, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != q.qtype || h.Class != wire.ClassINET || plain(h.Name) != owner || owner == "" {
			continue
		}
		// Two texts that differ only in how they are cut are two records, as
		// for receivers.
		same := func(other wire.RR) bool { return wire.IsDuplicate(other, rr) }
		if q.qtype == wire.TypeTXT && slices.ContainsFunc(m.Answer[:i], same) {
			continue
		}
		if len(v.values) == maxRecords {
			return view{}, errTooMany
		}
		if len(v.values) == 0 || int(h.Ttl) < v.ttl {
			v.ttl = int(h.Ttl)
		}
		v.values = append(v.values, content(rr))
	}
	order(v.values, q.qtype)
	if q.qtype != wire.TypeTXT {
		v.values = slices.Compact(v.values)
	}
	if v.alias != "" && len(v.values) == 0 && !denies(m) {
		v.open = owner
	}
	return v, nil
}

// denies reports whether m says that there is nothing, by the SOA that every
// negative answer carries.
func denies(m *wire.Msg) bool {
	return slices.ContainsFunc(m.Ns, func(rr wire.RR) bool { return rr.Header().Rrtype == wire.TypeSOA })
}

// follow walks the aliases from name and returns where they end, "" for a
// loop or a chain that is too long.
func follow(m *wire.Msg, name string) (view, string) {
	var v view
	targets := map[string]*wire.CNAME{}
	for _, rr := range m.Answer {
		if c, ok := rr.(*wire.CNAME); ok && c.Hdr.Class == wire.ClassINET {
			targets[plain(c.Hdr.Name)] = c
		}
	}
	if c, ok := targets[name]; ok {
		v.alias, v.aliasTTL = plain(c.Target), int(c.Hdr.Ttl)
	}
	for range maxLinks + 1 {
		c, ok := targets[name]
		if !ok {
			return v, name
		}
		name = plain(c.Target)
	}
	return v, ""
}

// content is a record's data in the form that sets are compared in.
func content(rr wire.RR) string {
	switch rr := rr.(type) {
	case *wire.TXT:
		return text(rr.Txt)
	case *wire.MX:
		return fmt.Sprintf("%d %s", rr.Preference, host(rr.Mx))
	case *wire.CNAME:
		return host(rr.Target)
	case *wire.NS:
		return host(rr.Ns)
	case *wire.SOA:
		return fmt.Sprintf("%s %s %d %d %d %d %d", host(rr.Ns), host(rr.Mbox), rr.Serial, rr.Refresh, rr.Retry, rr.Expire, rr.Minttl)
	case *wire.A:
		return rr.A.String()
	case *wire.AAAA:
		return rr.AAAA.String()
	default:
		return ""
	}
}

// order sorts values; mail exchangers by preference, so that the preferred
// one comes first.
func order(values []string, qtype uint16) {
	slices.SortFunc(values, func(a, b string) int {
		if qtype == wire.TypeMX {
			if d := preference(a) - preference(b); d != 0 {
				return d
			}
		}
		return strings.Compare(a, b)
	})
}

// soa is what an SOA record says of how new and whose a copy of a zone is.
type soa struct{ primary, mailbox, serial string }

// parseSOA reads an SOA from the form that content gives it.
func parseSOA(value string) soa {
	f := append(strings.Fields(value), "", "", "")
	return soa{f[0], f[1], f[2]}
}

func preference(mx string) int {
	number, _, _ := strings.Cut(mx, " ")
	n, _ := strconv.Atoi(number)
	return n
}

// plain is a name as we compare it: lower case, no final dot, "" for the root.
func plain(name string) string {
	return strings.TrimSuffix(wire.CanonicalName(name), ".")
}

// host is a name as we show it: the root stays a dot, as in a null MX.
func host(name string) string {
	if p := plain(name); p != "" {
		return p
	}
	return "."
}
