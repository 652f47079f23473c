// SPDX-License-Identifier: Apache-2.0

// Package dns holds mail DNS records, how tenantry reads them, and the plan of
// what a domain needs.
package dns

import "time"

// Type is a DNS record type by its name.
type Type string

// The record types that tenantry reads and asks for.
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

// Record is one record that the mail platform asks for.
type Record struct {
	Type Type
	// Name is fully qualified, lower case, without the final dot.
	Name string
	// Content is the text of a TXT (unquoted) or the target of an MX or
	// CNAME, without the final dot.
	Content    string
	Preference int // MX only
	TTL        int // seconds
}

// RRSet is what the world sees at one name and type.
type RRSet struct {
	Name string // as in Record
	Type Type
	TTL  int
	// Values are the contents: TXT unquoted and joined, CNAME and NS targets
	// without the final dot, MX as "preference host".
	Values []string
	// Synthesised is true when a wildcard answers and nothing stands at the
	// name itself.
	Synthesised bool
}

// Sight is one read of a domain from its authoritative servers.
type Sight struct {
	Domain string
	Zone   string // the apex of the zone that holds Domain
	Sets   []RRSet
	// Delegation names the servers to which the zone is delegated, in order.
	Delegation []string
	// Servers says what each authoritative server did: those of Delegation
	// and those that the zone itself names besides.
	Servers []Server
	// Complete is true when the read can be relied on: enough servers
	// answered everything and none disagrees with another.
	Complete bool
	// Reason says why the read is not complete, as a stable word.
	Reason string
	// Warnings are stable words for what is wrong with the zone's DNS without
	// making the read incomplete.
	Warnings []string
	// Secure is true when a resolver that checks DNSSEC vouches for the zone.
	Secure bool
	At     time.Time
	Beyond Beyond
}

// Asked is how many name servers were asked.
func (s Sight) Asked() int {
	return s.servers(func(n Server) bool { return n.State != ServerBlocked })
}

// Agreeing is how many of them gave the answers that most gave.
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

// ServerState is how an authoritative server behaved.
type ServerState string

// The classes of servers.
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
	// Agrees is true for a server that serves the zone as most of them do.
	Agrees bool
}

// Signing is the mail platform's DKIM configuration of a domain. It is the
// zero value while the platform has made none.
type Signing struct {
	Enabled bool
	// Selector1 and Selector2 are the CNAME records to publish, as the
	// platform says them.
	Selector1, Selector2 Record
}
