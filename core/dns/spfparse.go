// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const spfTag = "v=spf1"

// isSPF reports whether a text is an SPF record by RFC 7208, section 4.5.
func isSPF(text string) bool {
	return len(text) >= len(spfTag) && strings.EqualFold(text[:len(spfTag)], spfTag) &&
		(len(text) == len(spfTag) || text[len(spfTag)] == ' ')
}

// spfTerm is one term of an SPF record.
type spfTerm struct {
	offset     int    // in the text of the record
	qualifier  byte   // + - ~ ?, of a mechanism only
	name       string // lower case
	value      string // as written, without a leading : or =; of "a" and "mx" it may begin with /
	isModifier bool
}

// key returns a string that is equal for terms with the same name and value. It ignores letter
// case, a final dot and the qualifier.
func (t spfTerm) key() string {
	return t.name + " " + strings.TrimSuffix(strings.ToLower(t.value), ".")
}

// is reports whether the term is the mechanism or modifier with this name. For the term "all=x" and
// the name "all" it returns false, because "all=x" is not the mechanism but an unknown modifier.
func (t spfTerm) is(name string) bool {
	return t.name == name && t.isModifier == (name == "redirect" || name == "exp")
}

// spfRecord is a parsed SPF record. withTerms inserts terms into the text, so that the existing
// terms keep every byte.
type spfRecord struct {
	text  string
	terms []spfTerm
}

// parseSPF parses a record. It returns false if receivers would reject the record.
func parseSPF(text string) (spfRecord, bool) {
	r := spfRecord{text: text}
	if !isSPF(text) {
		return r, false
	}
	for offset := len(spfTag); offset < len(text); {
		if text[offset] == ' ' {
			offset++
			continue
		}
		end := len(text)
		if i := strings.IndexByte(text[offset:], ' '); i >= 0 {
			end = offset + i
		}
		t, ok := parseTerm(text[offset:end])
		if !ok || (t.is("redirect") || t.is("exp")) && r.first(t.name) != nil {
			return r, false
		}
		t.offset = offset
		r.terms = append(r.terms, t)
		offset = end
	}
	return r, true
}

func parseTerm(word string) (spfTerm, bool) {
	t := spfTerm{qualifier: '+'}
	signed := strings.IndexByte("+-~?", word[0]) >= 0
	if signed {
		t.qualifier, word = word[0], word[1:]
	}
	end := strings.IndexFunc(word, func(r rune) bool { return !isNameRune(r) })
	if end < 0 {
		end = len(word)
	}
	t.name = strings.ToLower(word[:end])
	argument := word[end:]
	if strings.HasPrefix(argument, "=") {
		t.isModifier, t.value = true, argument[1:]
		return t, !signed && validModifier(t)
	}
	t.value = strings.TrimPrefix(argument, ":")
	return t, validMechanism(t.name, argument)
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// validModifier reports whether a modifier conforms to RFC 7208.
func validModifier(t spfTerm) bool {
	if t.name == "" || !isLowerLetter(t.name[0]) {
		return false
	}
	if t.is("redirect") || t.is("exp") {
		return validDomainSpec(t.value)
	}
	return validMacros(t.value)
}

func isLowerLetter(b byte) bool { return b >= 'a' && b <= 'z' }

// validMechanism reports whether a mechanism's argument, with its : or /, conforms to RFC 7208.
func validMechanism(name, argument string) bool {
	value, colon := strings.CutPrefix(argument, ":")
	switch name {
	case "all":
		return argument == ""
	case "include", "exists":
		return colon && validDomainSpec(value)
	case "ptr":
		return argument == "" || colon && validDomainSpec(value)
	case "a", "mx":
		return validHostSpec(argument)
	case "ip4", "ip6":
		return colon && validNetwork(name, value)
	default:
		return false
	}
}

// validHostSpec reports whether an argument is an optional name with optional prefix lengths, as in
// ":example.com/24//64".
func validHostSpec(argument string) bool {
	host, prefix := argument, ""
	macroEnd := strings.LastIndexByte(argument, '}') + 1 // a slash in a macro is a delimiter of the macro
	if slash := strings.IndexByte(argument[macroEnd:], '/'); slash >= 0 {
		host, prefix = argument[:macroEnd+slash], argument[macroEnd+slash:]
	}
	if value, colon := strings.CutPrefix(host, ":"); host != "" && (!colon || !validDomainSpec(value)) {
		return false
	}
	ipv4Prefix, ipv6Prefix, hasIPv6Prefix := strings.Cut(prefix, "//")
	if hasIPv6Prefix && !validPrefixLength(ipv6Prefix, 128) {
		return false
	}
	return ipv4Prefix == "" || validPrefixLength(strings.TrimPrefix(ipv4Prefix, "/"), 32)
}

func validPrefixLength(digits string, maxLength int) bool {
	n, err := strconv.Atoi(digits)
	return err == nil && n >= 0 && n <= maxLength && digits[0] != '+'
}

func validNetwork(name, value string) bool {
	addr, bits, prefixed := strings.Cut(value, "/")
	ip, err := netip.ParseAddr(addr)
	if err != nil || ip.Zone() != "" || ip.Is4() != (name == "ip4") {
		return false
	}
	return !prefixed || validPrefixLength(bits, ip.BitLen())
}

// validDomainSpec reports whether s conforms to macroString and has a macro or at least two labels.
func validDomainSpec(s string) bool {
	return validMacros(s) && (strings.Contains(s, "%{") || strings.Contains(strings.TrimSuffix(s, "."), "."))
}

// macroString is the grammar of RFC 7208, section 7.1: visible ASCII in which each % starts an
// escape or a macro. A macro has a letter. A number of labels above 0, an "r" and delimiters may
// follow the letter, in this order.
var macroString = regexp.MustCompile(`^([!-$&-~]|%[%_-]|%\{[slodiphcrtvSLODIPHCRTV](0*[1-9][0-9]*)?[rR]?[-.+,/_=]*\})*$`)

func validMacros(s string) bool { return macroString.MatchString(s) }

// first returns the first term with this name, or nil.
func (r spfRecord) first(name string) *spfTerm {
	if i := slices.IndexFunc(r.terms, func(t spfTerm) bool { return t.is(name) }); i >= 0 {
		return &r.terms[i]
	}
	return nil
}

// reachableTerms returns the terms up to and including the first "all". Receivers evaluate no
// mechanism after "all".
func (r spfRecord) reachableTerms() []spfTerm {
	for i, t := range r.terms {
		if t.is("all") {
			return r.terms[:i+1]
		}
	}
	return r.terms
}

// redirect returns the target of a redirect that receivers follow, or "".
func (r spfRecord) redirect() string {
	if t := r.first("redirect"); t != nil && r.first("all") == nil {
		return t.value
	}
	return ""
}

// SPFReferences returns the names that receivers read for the includes and the redirect of an SPF
// record. It omits includes after "all", a redirect in a record with "all", and names that contain
// a macro. It returns nil for a text that is not a valid SPF record.
func SPFReferences(text string) []string {
	r, ok := parseSPF(text)
	if !ok {
		return nil
	}
	var names []string
	for _, t := range r.reachableTerms() {
		if t.is("include") && !strings.Contains(t.value, "%") {
			names = append(names, normalName(t.value))
		}
	}
	if target := r.redirect(); target != "" && !strings.Contains(target, "%") {
		names = append(names, normalName(target))
	}
	return names
}
