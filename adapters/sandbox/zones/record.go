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

// Record is one record as people write it: the name fully qualified without
// the final dot, TXT content unquoted.
type Record struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Priority *int   `json:"priority,omitempty"` // MX and SRV
}

// Invalid says what is wrong with a name, a record or a set of them.
type Invalid string

func (i Invalid) Error() string { return string(i) }

func invalid(format string, args ...any) error { return Invalid(fmt.Sprintf(format, args...)) }

const (
	maxRecords = 5000
	maxText    = 4096
)

var (
	hostName     = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)
	oneQuoted    = regexp.MustCompile(`(?s)^".*"$`)
	types        = []string{"A", "AAAA", "CAA", "CNAME", "MX", "NS", "SRV", "TXT"}
	withPriority = []string{"MX", "SRV"}
)

// UnmarshalJSON reads a record strictly: a misspelt member or a missing one
// would otherwise become a record that nobody meant.
func (r *Record) UnmarshalJSON(data []byte) error {
	type plain Record
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return invalid("a record is an object")
	}
	for _, name := range []string{"type", "name", "content", "ttl"} {
		if _, ok := members[name]; !ok {
			return invalid("a record has %q", name)
		}
		delete(members, name)
	}
	delete(members, "priority")
	for name := range members {
		return invalid("a record has no %q", name)
	}
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return invalid("a record has texts, and numbers for ttl and priority")
	}
	return nil
}

// rr checks a record of zone and gives what the server answers with.
func (r Record) rr(zone string) (wire.RR, error) {
	name := strings.ToLower(r.Name)
	if len(name) > 253 || !hostName.MatchString(strings.TrimPrefix(name, "*.")) {
		return nil, invalid("name %q is not a fully qualified name without the final dot", r.Name)
	}
	if !within(name, zone) {
		return nil, invalid("name %q is not in zone %s", r.Name, zone)
	}
	if r.TTL < 1 || r.TTL > 1<<31-1 {
		return nil, invalid("ttl of %s %s is between 1 and 2147483647", r.Type, r.Name)
	}
	if !slices.Contains(types, r.Type) {
		return nil, invalid("type %q is not one of %s", r.Type, strings.Join(types, ", "))
	}
	if (r.Priority != nil) != slices.Contains(withPriority, r.Type) {
		return nil, invalid("%s %s: MX and SRV have a priority, others have none", r.Type, r.Name)
	}
	if r.Priority != nil && (*r.Priority < 0 || *r.Priority > 65535) {
		return nil, invalid("priority of %s %s is between 0 and 65535", r.Type, r.Name)
	}
	if name == zone && (r.Type == "NS" || r.Type == "CNAME") {
		return nil, invalid("the zone's own SOA and NS stay, so %s holds no other %s", r.Name, r.Type)
	}
	h := wire.RR_Header{Name: name + ".", Rrtype: wire.StringToType[r.Type], Class: wire.ClassINET, Ttl: uint32(r.TTL)}
	rr, ok := r.data(h)
	if !ok {
		return nil, invalid("content of %s %s is not what such a record holds", r.Type, r.Name)
	}
	return rr, nil
}

// data reads the content by the record's type.
func (r Record) data(h wire.RR_Header) (wire.RR, bool) {
	target := strings.ToLower(strings.TrimSuffix(r.Content, "."))
	host := hostName.MatchString(target)
	switch r.Type {
	case "A":
		a, err := netip.ParseAddr(r.Content)
		return &wire.A{Hdr: h, A: a.AsSlice()}, err == nil && a.Is4()
	case "AAAA":
		a, err := netip.ParseAddr(r.Content)
		return &wire.AAAA{Hdr: h, AAAA: a.AsSlice()}, err == nil && a.Is6() && a.Zone() == ""
	case "CNAME":
		return &wire.CNAME{Hdr: h, Target: target + "."}, host
	case "NS":
		return &wire.NS{Hdr: h, Ns: target + "."}, host
	case "MX":
		return &wire.MX{Hdr: h, Preference: uint16(*r.Priority), Mx: target + "."}, host || r.Content == "."
	case "TXT":
		return &wire.TXT{Hdr: h, Txt: texts(r.Content)}, r.Content != "" && len(r.Content) <= maxText && !oneQuoted.MatchString(r.Content)
	case "SRV":
		return parsed(h, fmt.Sprintf("%d %s", *r.Priority, r.Content))
	case "CAA":
		return parsed(h, r.Content)
	}
	return nil, false
}

// parsed reads content as zone files write it.
func parsed(h wire.RR_Header, content string) (wire.RR, bool) {
	rr, err := wire.NewRR(fmt.Sprintf("%s %d IN %s %s", h.Name, h.Ttl, wire.TypeToString[h.Rrtype], content))
	return rr, err == nil && rr != nil && !strings.Contains(content, "\n")
}

// texts cuts a text into the strings of a TXT record, in the library's form,
// where a backslash is escaped.
func texts(s string) []string {
	var out []string
	for len(s) > 0 {
		n := min(len(s), 255)
		out = append(out, strings.ReplaceAll(s[:n], `\`, `\\`))
		s = s[n:]
	}
	return out
}

// within reports whether name is zone or lies below it.
func within(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}
