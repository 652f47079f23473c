// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	wire "github.com/miekg/dns"
)

// Record is one DNS record as people write it: a fully qualified name without the final dot, and
// TXT content without quotes.
type Record struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Priority *int   `json:"priority,omitempty"` // MX and SRV
}

// InvalidError is the error for invalid input, such as an invalid record or records that conflict.
type InvalidError string

func (i InvalidError) Error() string { return string(i) }

func invalid(format string, args ...any) error { return InvalidError(fmt.Sprintf(format, args...)) }

const (
	maxRecords = 5000 // in one zone
	maxText    = 4096 // bytes in one TXT record
)

var (
	hostNamePattern   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)
	quotedText        = regexp.MustCompile(`(?s)^".*"$`)
	recordTypes       = []string{"A", "AAAA", "CAA", "CNAME", "MX", "NS", "SRV", "TXT"}
	typesWithPriority = []string{"MX", "SRV"}
)

// UnmarshalJSON decodes a record. It refuses unknown members and the absence of required members,
// so that the caller notices a misspelled member.
func (r *Record) UnmarshalJSON(data []byte) error {
	type plain Record
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return invalid("a record must be an object")
	}
	for _, name := range []string{"type", "name", "content", "ttl"} {
		if _, ok := members[name]; !ok {
			return invalid("a record must have %q", name)
		}
		delete(members, name)
	}
	delete(members, "priority")
	for name := range members {
		return invalid("a record must not have %q", name)
	}
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return invalid("ttl and priority of a record must be whole numbers, its other members strings")
	}
	return nil
}

// toWire checks the record and converts it to the form in which the server sends it. It fails with
// an InvalidError.
func (r Record) toWire(zone string) (wire.RR, error) {
	name := strings.ToLower(r.Name)
	if len(name) > 253 || !hostNamePattern.MatchString(strings.TrimPrefix(name, "*.")) {
		return nil, invalid("name %q is not a fully qualified name without the final dot", r.Name)
	}
	if !isWithin(name, zone) {
		return nil, invalid("name %q is not in zone %s", r.Name, zone)
	}
	if r.TTL < 1 || r.TTL > 1<<31-1 {
		return nil, invalid("ttl of %s %s must be between 1 and 2147483647", r.Type, r.Name)
	}
	if !slices.Contains(recordTypes, r.Type) {
		return nil, invalid("type %q is not one of %s", r.Type, strings.Join(recordTypes, ", "))
	}
	if (r.Priority != nil) != slices.Contains(typesWithPriority, r.Type) {
		return nil, invalid("%s %s: MX and SRV must have a priority, other types must not", r.Type, r.Name)
	}
	if r.Priority != nil && (*r.Priority < 0 || *r.Priority > 65535) {
		return nil, invalid("priority of %s %s must be between 0 and 65535", r.Type, r.Name)
	}
	if name == zone && (r.Type == "NS" || r.Type == "CNAME") {
		return nil, invalid("the zone's own SOA and NS cannot be changed, so %s cannot hold a %s record", r.Name, r.Type)
	}
	h := wire.RR_Header{Name: name + ".", Rrtype: wire.StringToType[r.Type], Class: wire.ClassINET, Ttl: uint32(r.TTL)}
	rr, ok := r.parseContent(h)
	if !ok {
		return nil, invalid("content of %s %s is not valid for this type", r.Type, r.Name)
	}
	return rr, nil
}

// parseContent parses the content according to the type of the record. It returns false when the
// content is invalid.
func (r Record) parseContent(header wire.RR_Header) (wire.RR, bool) {
	target := strings.ToLower(strings.TrimSuffix(r.Content, "."))
	isHost := hostNamePattern.MatchString(target)
	switch r.Type {
	case "A":
		a, err := netip.ParseAddr(r.Content)
		return &wire.A{Hdr: header, A: a.AsSlice()}, err == nil && a.Is4()
	case "AAAA":
		a, err := netip.ParseAddr(r.Content)
		return &wire.AAAA{Hdr: header, AAAA: a.AsSlice()}, err == nil && a.Is6() && a.Zone() == ""
	case "CNAME":
		return &wire.CNAME{Hdr: header, Target: target + "."}, isHost
	case "NS":
		return &wire.NS{Hdr: header, Ns: target + "."}, isHost
	case "MX":
		return &wire.MX{Hdr: header, Preference: uint16(*r.Priority), Mx: target + "."}, isHost || r.Content == "."
	case "TXT":
		return &wire.TXT{Hdr: header, Txt: splitText(r.Content)}, r.Content != "" && len(r.Content) <= maxText && !quotedText.MatchString(r.Content)
	case "SRV":
		return parseZoneFile(header, fmt.Sprintf("%d %s", *r.Priority, r.Content))
	case "CAA":
		return parseZoneFile(header, r.Content)
	}
	return nil, false
}

// parseZoneFile parses content in the format of zone files.
func parseZoneFile(h wire.RR_Header, content string) (wire.RR, bool) {
	rr, err := wire.NewRR(fmt.Sprintf("%s %d IN %s %s", h.Name, h.Ttl, wire.TypeToString[h.Rrtype], content))
	return rr, err == nil && rr != nil && !strings.Contains(content, "\n")
}

// splitText splits a text into the strings of a TXT record. It escapes backslashes, because package
// miekg/dns requires this.
func splitText(s string) []string {
	var parts []string
	for len(s) > 0 {
		n := min(len(s), 255)
		parts = append(parts, strings.ReplaceAll(s[:n], `\`, `\\`))
		s = s[n:]
	}
	return parts
}

// isWithin reports whether name equals zone or is below it.
func isWithin(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}
