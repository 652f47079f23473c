// SPDX-License-Identifier: Apache-2.0

// Package dns reads the mail records of a domain and plans the changes that they need. It is pure:
// adapters make the DNS queries and call the providers.
//
// The main types are Sight (one read of a domain), Offer (the records of the mail platform), Plan
// (the changes), and Holder (the provider and the account's access). Start reading at NewPlan in
// plan.go.
//
// record.go, zone.go and beyond.go define records, zones and reads. look.go holds zoneView and
// verdict, the base of all decisions. The decisions for each purpose are in ownership.go, mx.go,
// spf.go, spfmerge.go, spftree.go, autodiscover.go, dmarc.go and dkim.go. detect.go and access.go
// find the provider of a zone, and automation.go decides whether a plan can be written. read.go,
// merge.go and soundness.go derive a domain's status from a read.
package dns

import "time"

// Type is the name of a DNS record type.
type Type string

// The record types that tenantry reads or writes.
const (
	TXT   Type = "TXT"
	MX    Type = "MX"
	CNAME Type = "CNAME"
	NS    Type = "NS"
	SOA   Type = "SOA"
	A     Type = "A"
	AAAA  Type = "AAAA"
	DNAME Type = "DNAME"
)

// Record is one record that the mail platform specifies.
type Record struct {
	Type Type
	// Name is fully qualified, in lower case, without the final dot.
	Name string
	// Content is the unquoted text of a TXT record, or the target of an MX or CNAME without the
	// final dot.
	Content    string
	Preference int // MX only
	TTL        int // seconds
}

// RRSet is the published record set of one name and type.
type RRSet struct {
	Name string // as in Record
	Type Type
	TTL  int
	// Values are the contents: TXT unquoted and joined, CNAME and NS targets without the final dot,
	// MX as "preference host".
	Values []string
	// Synthesised is true when a wildcard answers for a name that does not exist.
	Synthesised bool
}

// Sight is one read of a domain from its authoritative servers.
type Sight struct {
	Domain string
	Zone   string // the apex of the zone that holds Domain
	Sets   []RRSet
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
	Secure bool
	At     time.Time
	Beyond Beyond
}

// Asked returns the number of name servers that were queried.
func (s Sight) Asked() int {
	return s.servers(func(n Server) bool { return n.State != ServerBlocked })
}

// Agreeing returns the number of servers that gave the majority's answers.
func (s Sight) Agreeing() int { return s.servers(func(n Server) bool { return n.Agrees }) }

func (s Sight) servers(are func(Server) bool) int {
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

// Signing is the mail platform's DKIM configuration of a domain. It is the zero value as long as
// the platform has not created one.
type Signing struct {
	Enabled bool
	// Selector1 and Selector2 are the CNAME records to publish, as specified by the platform.
	Selector1, Selector2 Record
}
