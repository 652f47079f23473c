// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// ZoneRead is one read of a domain from its authoritative servers.
type ZoneRead struct {
	Domain string
	Zone   string // the apex of the zone that holds Domain
	Sets   []RRSet
	// Listed is true when Sets are the provider's own list of records (WithProviderRecords).
	Listed bool
	// Delegation lists the servers to which the zone is delegated, sorted.
	Delegation []string
	// Servers holds the result of each authoritative server: those of Delegation and those in the
	// zone's own NS records.
	Servers []Server
	// Complete is true when the read is reliable: enough servers answered all queries, and they
	// agree.
	Complete bool
	// Reason is a stable word for why the read is not complete.
	Reason string
	// Warnings are stable words for problems of the zone's DNS that do not make the read
	// incomplete.
	Warnings []string
	// Secure is true when a DNSSEC-validating resolver vouches for the zone.
	Secure     bool
	At         time.Time
	Referenced Referenced
}

// Asked returns the number of name servers that were queried.
func (s ZoneRead) Asked() int {
	return s.servers(func(n Server) bool { return n.State != ServerBlocked })
}

// Agreeing returns the number of servers whose answers equal those of the majority.
func (s ZoneRead) Agreeing() int { return s.servers(func(n Server) bool { return n.Agrees }) }

func (s ZoneRead) servers(are func(Server) bool) int {
	n := 0
	for _, server := range s.Servers {
		if are(server) {
			n++
		}
	}
	return n
}

// ServerState is the behaviour of an authoritative server.
type ServerState string

// The states of servers.
const (
	ServerOK          ServerState = "ok"
	ServerLame        ServerState = "lame"
	ServerUnreachable ServerState = "unreachable"
	ServerBlocked     ServerState = "blocked"
)

// Server is one authoritative server of the zone.
type Server struct {
	Name  string
	State ServerState
	// Agrees is true when the server's answers equal those of most servers.
	Agrees bool
}

// ReasonNotDelegated is ZoneRead.Reason when the parent zone does not delegate the domain.
const ReasonNotDelegated = "not_delegated"

// ReasonSilent is ZoneRead.Reason when the DNS provider did not answer, and may hold more records
// than its servers show. The DNS reader defines most other reasons.
const ReasonSilent = "provider_unavailable"

// ReasonRecursive is ZoneRead.Reason when the records come from recursive resolvers, whose caches
// may be outdated.
const ReasonRecursive = "recursive_only"

// Silent reports whether no server answered at all, so that the cause may be the service's own
// network.
func (s ZoneRead) Silent() bool {
	return !s.Complete && s.Reason != ReasonNotDelegated && s.servers(func(n Server) bool { return n.State == ServerOK }) == 0
}

// NegativeTTL returns how long resolvers cache the absence of a record of the zone: min(SOA TTL,
// SOA MINIMUM), as in RFC 2308. It returns 0 when unknown.
func (s ZoneRead) NegativeTTL() time.Duration {
	soa := Find(s.Sets, s.Zone, SOA)
	if len(soa.Values) == 0 {
		return 0
	}
	fields := strings.Fields(soa.Values[0])
	if len(fields) != 7 {
		return 0
	}
	minimum, err := strconv.ParseUint(fields[6], 10, 31)
	if err != nil || soa.TTL < 0 {
		return 0
	}
	return time.Duration(min(soa.TTL, int(minimum))) * time.Second
}

func (s ZoneRead) values(name string, typ Type) []string {
	for _, set := range s.Sets {
		if set.Type == typ && sameName(set.Name, name) {
			return set.Values
		}
	}
	return nil
}

// Referenced holds what a plan must know about names outside the domain. A name whose lookup failed
// is absent from the maps. A name without records is present with no values.
type Referenced struct {
	// SPF holds the TXT values of all names that the SPF records of the domain and the platform
	// reference, directly or indirectly. SPFReferences returns the names that a record references.
	SPF map[string][]string
	// Above holds the TXT values of the names of DMARCAbove, for a domain without a DMARC record of
	// its own.
	Above map[string][]string
	// Exchanges holds the problem of each host in the domain's MX that cannot receive mail.
	Exchanges map[string]Exchange
	// Keys holds the TXT values of the DKIM targets, for selectors that have a TXT record and no
	// CNAME. Some providers replace a CNAME by its target's records.
	Keys map[string][]string
}

// Exchange is the problem of a host in an MX record.
type Exchange string

// The problems of an MX host. A usable host has no entry.
const (
	ExchangeAlias     Exchange = "alias"   // a CNAME, which RFC 2181 forbids there
	ExchangeNoAddress Exchange = "nowhere" // no address
)

// Needs lists the names outside the domain that must be read before its records can be planned.
// Each list corresponds to a field of Referenced.
type Needs struct {
	// SPF holds the first names to read. Each record may reference more names.
	SPF       []string
	Above     []string
	Exchanges []string
	Keys      []string
}

// Needs returns the names that must be read in addition to s before the wanted records can be
// planned. The lists are minimal, because each name costs a DNS query.
func (s ZoneRead) Needs(wanted []Desired) Needs {
	var n Needs
	z := zoneView{ZoneRead: s}
	for _, want := range wanted {
		switch want.Purpose {
		case Sending:
			n.SPF = s.needsSPF(want)
		case Policy:
			if len(z.setAt(want.Name, CNAME).Values) == 0 && len(filter(z.values(want.Name, TXT), isDMARC)) == 0 {
				n.Above = DMARCAbove(s.Domain)
			}
		case Selector1, Selector2:
			if len(z.setAt(want.Name, CNAME).Values) == 0 && len(z.setAt(want.Name, TXT).Values) > 0 {
				n.Keys = append(n.Keys, normalName(want.Content))
			}
		}
	}
	n.Exchanges = s.needsExchanges(wanted)
	return n
}

func (s ZoneRead) needsSPF(want Desired) []string {
	var names []string
	for _, text := range append([]string{want.Content}, s.values(want.Name, TXT)...) {
		names = append(names, SPFReferences(text)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// neverExisting is the top-level domain without names (RFC 6761).
var neverExisting = []string{".invalid"}

// needsExchanges returns the MX hosts except those of the platform and those that cannot exist, nil if only DKIM selectors are wanted.
func (s ZoneRead) needsExchanges(wanted []Desired) []string {
	selectors := func(d Desired) bool { return d.Purpose == Selector1 || d.Purpose == Selector2 }
	if !slices.ContainsFunc(wanted, func(d Desired) bool { return !selectors(d) }) {
		return nil
	}
	var hosts []string
	for _, value := range s.values(s.Domain, MX) {
		_, host, ok := parseMX(value)
		desired := slices.ContainsFunc(wanted, func(d Desired) bool { return d.Type == MX && sameName(d.Content, host) })
		if ok && host != "" && !isAddress(host) && !desired && !below(host, neverExisting) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
