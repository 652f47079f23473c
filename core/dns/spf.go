// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
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

// spfTerm is one term of an SPF record, with the place where it begins.
type spfTerm struct {
	at        int
	qualifier byte   // + - ~ ?, of a mechanism only
	name      string // lower case
	value     string // as written, without the : or =, of a and mx with the /
	modifier  bool
}

// key is what makes two terms the same.
func (t spfTerm) key() string {
	return t.name + " " + strings.TrimSuffix(strings.ToLower(t.value), ".")
}

// is reports whether this is the mechanism or modifier of that name; "all=x" is
// an unknown modifier and no all.
func (t spfTerm) is(name string) bool {
	return t.name == name && t.modifier == (name == "redirect" || name == "exp")
}

// spfRecord is an SPF record that was read. Its text is never built anew from
// its terms: what others wrote stays byte for byte.
type spfRecord struct {
	text  string
	terms []spfTerm
}

// parseSPF reads a record, or reports that receivers would refuse it.
func parseSPF(text string) (spfRecord, bool) {
	r := spfRecord{text: text}
	if !isSPF(text) {
		return r, false
	}
	for at := len(spfTag); at < len(text); {
		if text[at] == ' ' {
			at++
			continue
		}
		end := len(text)
		if i := strings.IndexByte(text[at:], ' '); i >= 0 {
			end = at + i
		}
		t, ok := parseTerm(text[at:end])
		if !ok || (t.modifier && (t.is("redirect") || t.is("exp")) && r.first(t.name) != nil) {
			return r, false
		}
		t.at = at
		r.terms = append(r.terms, t)
		at = end
	}
	return r, true
}

func parseTerm(word string) (spfTerm, bool) {
	t := spfTerm{qualifier: '+'}
	signed := strings.IndexByte("+-~?", word[0]) >= 0
	if signed {
		t.qualifier, word = word[0], word[1:]
	}
	end := strings.IndexFunc(word, func(r rune) bool { return !nameRune(r) })
	if end < 0 {
		end = len(word)
	}
	t.name = strings.ToLower(word[:end])
	rest := word[end:]
	if strings.HasPrefix(rest, "=") {
		t.modifier, t.value = true, rest[1:]
		return t, !signed && modifierOK(t)
	}
	t.value = strings.TrimPrefix(rest, ":")
	return t, mechanismOK(t.name, rest)
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

func modifierOK(t spfTerm) bool {
	if t.name == "" || !letter(t.name[0]) {
		return false
	}
	if t.is("redirect") || t.is("exp") {
		return domainSpec(t.value)
	}
	return macros(t.value)
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' }

// mechanismOK holds a mechanism's argument, with its : or /, against the
// grammar of RFC 7208.
func mechanismOK(name, rest string) bool {
	value, colon := strings.CutPrefix(rest, ":")
	switch name {
	case "all":
		return rest == ""
	case "include", "exists":
		return colon && domainSpec(value)
	case "ptr":
		return rest == "" || colon && domainSpec(value)
	case "a", "mx":
		return hostSpec(rest)
	case "ip4", "ip6":
		return colon && network(name, value)
	default:
		return false
	}
}

// hostSpec is an optional name and optional prefix lengths: ":d/24//64".
func hostSpec(rest string) bool {
	host, prefix := rest, ""
	// A slash inside of a macro's braces is a delimiter of the macro.
	if i := strings.IndexByte(rest[strings.LastIndexByte(rest, '}')+1:], '/'); i >= 0 {
		i += strings.LastIndexByte(rest, '}') + 1
		host, prefix = rest[:i], rest[i:]
	}
	if value, colon := strings.CutPrefix(host, ":"); host != "" && (!colon || !domainSpec(value)) {
		return false
	}
	four, six, dual := strings.Cut(prefix, "//")
	if dual && !length(six, 128) {
		return false
	}
	return four == "" || length(strings.TrimPrefix(four, "/"), 32)
}

func length(digits string, most int) bool {
	n, err := strconv.Atoi(digits)
	return err == nil && n >= 0 && n <= most && digits[0] != '+'
}

func network(name, value string) bool {
	addr, bits, prefixed := strings.Cut(value, "/")
	ip, err := netip.ParseAddr(addr)
	if err != nil || ip.Zone() != "" || ip.Is4() != (name == "ip4") {
		return false
	}
	return !prefixed || length(bits, ip.BitLen())
}

// domainSpec is a name that has at least two labels or a macro.
func domainSpec(s string) bool {
	return macros(s) && (strings.Contains(s, "%{") || strings.Contains(strings.TrimSuffix(s, "."), "."))
}

// macros reports whether s is visible ASCII whose % all begin a macro.
func macros(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
		if s[i] != '%' {
			continue
		}
		rest := s[i+1:]
		if rest == "" || strings.IndexByte("%_-{", rest[0]) < 0 {
			return false
		}
		if end := strings.IndexByte(rest, '}'); rest[0] == '{' {
			if end < 2 || !strings.ContainsRune("slodiphcrtvSLODIPHCRTV", rune(rest[1])) {
				return false
			}
			i += end
		}
		i++
	}
	return true
}

// first is the first term of a name, or nil.
func (r spfRecord) first(name string) *spfTerm {
	if i := slices.IndexFunc(r.terms, func(t spfTerm) bool { return t.is(name) }); i >= 0 {
		return &r.terms[i]
	}
	return nil
}

// live are the terms that receivers reach: those after all are dead.
func (r spfRecord) live() []spfTerm {
	for i, t := range r.terms {
		if t.is("all") {
			return r.terms[:i+1]
		}
	}
	return r.terms
}

// redirect is the name that decides when nothing here does, or "".
func (r spfRecord) redirect() string {
	if t := r.first("redirect"); t != nil && r.first("all") == nil {
		return t.value
	}
	return ""
}

// SPFReferences lists the names to which an SPF record refers and that can be
// asked: includes and a redirect, but none with a macro. It lists nothing for
// any other text.
func SPFReferences(text string) []string {
	r, ok := parseSPF(text)
	if !ok {
		return nil
	}
	var names []string
	for _, t := range r.live() {
		if t.is("include") && !strings.Contains(t.value, "%") {
			names = append(names, referred(t.value))
		}
	}
	if to := r.redirect(); to != "" && !strings.Contains(to, "%") {
		names = append(names, referred(to))
	}
	return names
}

func referred(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
