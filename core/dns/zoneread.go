// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// ZoneRead is one read of a domain's DNS.
type ZoneRead struct {
	Domain string
	Zone   string // the apex of the zone that contains Domain
	Sets   []RRSet
	// FromProvider is true when Sets come from the provider's own list of records instead of name
	// servers. WithProviderRecords describes the exceptions.
	FromProvider bool
	// Delegation lists the name servers to which the parent zone delegates the zone, sorted. If no
	// server of the parent zone returns a referral, it lists the zone's own NS records.
	Delegation []string
	// Servers holds the result of each authoritative server. These are the servers of Delegation
	// and of the zone's own NS records. If only recursive resolvers are queried, Servers lists them
	// as one server.
	Servers []Server
	// Complete is true when the read is reliable. Reason is "" then.
	Complete bool
	// Reason is the code for why the read is not complete, such as ReasonNotDelegated. Package
	// adapters/dnsresolver defines the other codes. All codes are part of the API.
	Reason string
	// Warnings are the codes for problems of the zone's DNS that do not make the read incomplete.
	// They are part of the API.
	Warnings []string
	// Secure is true when a resolver has validated the DNSSEC signatures of the zone.
	Secure     bool
	At         time.Time
	Referenced Referenced
}

// ServersAsked returns the number of name servers that are not blocked.
func (read ZoneRead) ServersAsked() int {
	return read.countServers(func(n Server) bool { return n.State != ServerBlocked })
}

// ServersAgreeing returns the number of servers for which Agrees is true.
func (read ZoneRead) ServersAgreeing() int {
	return read.countServers(func(n Server) bool { return n.Agrees })
}

func (read ZoneRead) countServers(matches func(Server) bool) int {
	count := 0
	for _, server := range read.Servers {
		if matches(server) {
			count++
		}
	}
	return count
}

// ServerState is the state of an authoritative server in a read.
type ServerState string

// The states of servers. A blocked server was not queried, because all its addresses are forbidden.
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
	// Agrees is true when the server's answers agree with those of the largest group of servers
	// whose answers agree.
	Agrees bool
}

// ReasonNotDelegated is ZoneRead.Reason when the parent zone does not delegate the domain.
const ReasonNotDelegated = "not_delegated"

// ReasonProviderUnavailable is ZoneRead.Reason when the records that the DNS provider stores could
// not be read. They can include records that its name servers do not return.
const ReasonProviderUnavailable = "provider_unavailable"

// ReasonProviderAhead is ZoneRead.Reason when the records that the DNS provider stores depend on
// names that were not read. This can happen while they differ from the records that the name
// servers return.
const ReasonProviderAhead = "provider_ahead"

// ReasonRecursive is ZoneRead.Reason when the records come from recursive resolvers, whose caches
// may be outdated.
const ReasonRecursive = "recursive_only"

// AllServersSilent returns true for an incomplete read in which no server gave an authoritative
// answer, unless the domain is not delegated. The cause may be the service's own network.
func (read ZoneRead) AllServersSilent() bool {
	return !read.Complete && read.Reason != ReasonNotDelegated && read.countServers(func(n Server) bool { return n.State == ServerOK }) == 0
}

// NegativeTTL returns how long resolvers cache the absence of a record of the zone: min(SOA TTL,
// SOA MINIMUM), as in RFC 2308. It returns 0 when unknown.
func (read ZoneRead) NegativeTTL() time.Duration {
	soa := Find(read.Sets, read.Zone, SOA)
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

func (read ZoneRead) values(name string, recordType Type) []string {
	return Find(read.Sets, name, recordType).Values
}

// Referenced holds what was read about further names on which a plan for the domain depends, such
// as the names in SPF records and the hosts of MX records. A name that was not read, or whose
// lookup failed, is absent from the maps. Except in Exchanges, a name without records is present
// with no values.
type Referenced struct {
	// SPF holds the TXT values of the names that the SPF records of the domain and the platform
	// reference, directly or indirectly. SPFReferences returns the names that a record references.
	SPF map[string][]string
	// ParentDMARC holds the TXT values at the names that ParentDMARCNames returns. It is read only
	// if the domain has neither a DMARC record nor a CNAME in its place.
	ParentDMARC map[string][]string
	// Exchanges maps each MX host of the domain that cannot receive mail to its problem.
	Exchanges map[string]MXProblem
	// Keys holds the TXT values of the targets of wanted DKIM CNAMEs. It has an entry only if the
	// selector has a TXT record in place of the CNAME, because some providers return the target's
	// records.
	Keys map[string][]string
}

// MXProblem is the problem of a host in an MX record.
type MXProblem string

// The problems of an MX host. A usable host has no entry.
const (
	MXProblemAlias     MXProblem = "alias"   // the host is a CNAME; RFC 2181 forbids this
	MXProblemNoAddress MXProblem = "nowhere" // the host has no address
)

// Needs lists the further names that must be read before the records of a domain can be planned.
// Each list corresponds to a field of Referenced.
type Needs struct {
	// SPF holds the first names to read. The SPF record at each name may reference more names.
	SPF         []string
	ParentDMARC []string
	Exchanges   []string
	Keys        []string
}

// Needs returns the names that must be read, in addition to this read, before the wanted records
// can be planned. It omits names that are not needed, because each name costs a DNS query.
func (read ZoneRead) Needs(wanted []Desired) Needs {
	var needs Needs
	z := zoneView{ZoneRead: read}
	for _, want := range wanted {
		switch want.Purpose {
		case Sending:
			needs.SPF = read.needsSPF(want)
		case Policy:
			if len(z.setAt(want.Name, CNAME).Values) == 0 && len(filter(z.values(want.Name, TXT), isDMARC)) == 0 {
				needs.ParentDMARC = ParentDMARCNames(read.Domain)
			}
		case Selector1, Selector2:
			if len(z.setAt(want.Name, CNAME).Values) == 0 && len(z.setAt(want.Name, TXT).Values) > 0 {
				needs.Keys = append(needs.Keys, normalName(want.Content))
			}
		}
	}
	needs.Exchanges = read.needsExchanges(wanted)
	return needs
}

// contains reports whether n has all names of other. It ignores Exchanges, because an MX host that
// was not read counts as usable.
func (n Needs) contains(other Needs) bool {
	return containsAll(n.SPF, other.SPF) && containsAll(n.ParentDMARC, other.ParentDMARC) && containsAll(n.Keys, other.Keys)
}

func containsAll(names, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(names, name) })
}

func (read ZoneRead) needsSPF(want Desired) []string {
	var names []string
	for _, text := range append([]string{want.Content}, read.values(want.Name, TXT)...) {
		names = append(names, SPFReferences(text)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nonexistentSuffixes are the suffixes of names that never exist in the DNS (RFC 6761).
var nonexistentSuffixes = []string{".invalid"}

// needsExchanges returns the hosts of the domain's MX whose addresses must be checked. It omits the
// platform's host, IP addresses and hosts that cannot exist. It returns nil if only DKIM selectors
// are wanted.
func (read ZoneRead) needsExchanges(wanted []Desired) []string {
	isSelector := func(d Desired) bool { return d.Purpose == Selector1 || d.Purpose == Selector2 }
	if !slices.ContainsFunc(wanted, func(d Desired) bool { return !isSelector(d) }) {
		return nil
	}
	var hosts []string
	for _, value := range read.values(read.Domain, MX) {
		_, host, ok := parseMX(value)
		isDesired := slices.ContainsFunc(wanted, func(d Desired) bool { return d.Type == MX && sameName(d.Content, host) })
		if ok && host != "" && !isAddress(host) && !isDesired && !endsWithAny(host, nonexistentSuffixes) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
