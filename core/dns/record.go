// SPDX-License-Identifier: Apache-2.0

// Package dns evaluates the mail records of a domain and plans the changes that they need. It does
// no I/O: adapters make the DNS queries and call the providers.
//
// Start reading at NewPlan in plan.go. It compares a ZoneRead, which is one read of a domain's DNS,
// with an Offer, the records that the mail platform specifies. The resulting Plan lists the record
// sets to write, with reasons. A Holder is the provider that serves the zone, with the account's
// access to it.
//
//   - record.go: records and record sets, and the text of TXT records.
//   - zoneread.go: ZoneRead, Referenced, and Needs, which lists what must be read before a plan.
//   - offer.go: Offer, the records that the mail platform specifies for a domain.
//   - desired.go: DesiredRecords, which derives the records that a domain must have.
//   - plan.go: Plan and its hash, and the decisions on ownership and autodiscover records.
//   - mx.go, spfmerge.go, dmarc.go, dkim.go: the decisions on the other records. spfparse.go parses
//     SPF records and spftree.go counts their lookups.
//   - zoneview.go: zoneView and verdict, which the decisions on records use, and
//     ZoneRead.WithProviderRecords.
//   - reasons.go: the reasons and notes of a plan, as codes and as sentences.
//   - status.go: the status of a domain's records, and whether they are correct.
//   - zone.go: Zone and Change, and the checks before a change is written at a provider.
//   - write.go: Write, a request that changes a zone, and ResolveWrites for unknown outcomes.
//   - undo.go: Undo, the plan that undoes the writes of a run.
//   - holder.go: the provider of a zone, and the account's access to it.
//   - automation.go: whether the service can write a plan, and what a person must do if not.
package dns

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// Record is one DNS record that the mail platform or the operator specifies.
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

// Value returns the record's content in the form that RRSet.Values uses.
func (r Record) Value() string {
	switch r.Type {
	case MX:
		return mxValue(r.Preference, r.Content)
	case TXT:
		return r.Content
	default:
		return normalName(r.Content)
	}
}

// RRSet is the record set of one name and type.
type RRSet struct {
	Name string // as in Record
	Type Type
	TTL  int
	// Values are the contents: TXT unquoted and joined, CNAME and NS targets without the final dot,
	// MX as "preference host".
	Values []string
	// Synthesised is true when the set is the answer of a wildcard for a name that does not exist.
	Synthesised bool
	// Veiled is true when the provider stores the set, but its name servers return other records in
	// place of it: the provider proxies or flattens a record of the set. Only a set in a provider's
	// list of records can be veiled.
	Veiled bool
}

// Same reports whether two sets have the same name, type and values, in any order. It ignores all
// other fields. The method is not called Equal, because test libraries use a method Equal to
// compare values, and tests must also compare the TTL.
func (s RRSet) Same(other RRSet) bool {
	return sameName(s.Name, other.Name) && s.Type == other.Type &&
		slices.Equal(slices.Sorted(slices.Values(s.Values)), slices.Sorted(slices.Values(other.Values)))
}

// InZone reports whether the zone with this apex can hold the set. The name of the set must be the
// apex or below the apex. The type must have the form of a record type, such as TXT or TYPE65534. A
// type in lower case is not allowed, because types are compared exactly.
func (s RRSet) InZone(apex string) bool {
	return isInDomain(s.Name, apex) && s.Type != "" && strings.Trim(string(s.Type), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// Find returns the set of a name and type. If sets has no such set, the result has no values.
func Find(sets []RRSet, name string, recordType Type) RRSet {
	for _, s := range sets {
		if s.Type == recordType && sameName(s.Name, name) {
			return s
		}
	}
	return RRSet{Name: name, Type: recordType}
}

// WithoutChanged returns the sets that the changes leave as they are.
func WithoutChanged(sets []RRSet, changes []Change) []RRSet {
	return slices.DeleteFunc(slices.Clone(sets), func(set RRSet) bool {
		return slices.ContainsFunc(changes, func(c Change) bool { return set.Type == c.After.Type && sameName(set.Name, c.After.Name) })
	})
}

func normalName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// maxStringLength is the maximum length of one string of a TXT record, in octets.
const maxStringLength = 255

// Chunks splits a text into the strings of a TXT record, after a space where possible. A space
// stays at the end of its string, because receivers join the strings without a separator.
func Chunks(text string) []string {
	chunks := []string{}
	for len(text) > maxStringLength {
		cut := strings.LastIndexByte(text[:maxStringLength], ' ') + 1
		if cut == 0 {
			cut = maxStringLength
		}
		chunks, text = append(chunks, text[:cut]), text[cut:]
	}
	return append(chunks, text)
}

// EscapeText returns the content as text that is safe to show and store. Invalid UTF-8 and control
// characters become \DDD, as in zone files.
func EscapeText(content string) string {
	if utf8.ValidString(content) && !strings.ContainsFunc(content, unicode.IsControl) {
		return content
	}
	var b strings.Builder
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRuneInString(content[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
			for _, octet := range []byte(content[i : i+size]) {
				fmt.Fprintf(&b, `\%03d`, octet)
			}
		} else {
			b.WriteString(content[i : i+size])
		}
		i += size
	}
	return b.String()
}
