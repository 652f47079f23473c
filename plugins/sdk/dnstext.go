// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
)

var errText = errors.New("a TXT that makes no sense")

// QuoteText writes a text as zone files do: strings of at most 255 bytes, in
// quotes, with \DDD for what is not printable.
func QuoteText(text string) string {
	var b strings.Builder
	for i, chunk := range dns.Chunks(text) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('"')
		for _, c := range []byte(chunk) {
			switch {
			case c == '"' || c == '\\':
				b.Write([]byte{'\\', c})
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\%03d`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
	}
	return b.String()
}

// UnquoteText joins the strings of a TXT as zone files write it. A text without
// any quotes is taken as it is.
func UnquoteText(content string) (string, error) {
	if !strings.HasPrefix(content, `"`) {
		return content, nil
	}
	var b strings.Builder
	inside := false
	for i := 0; i < len(content); i++ {
		c := content[i]
		switch {
		case c == '"':
			inside = !inside
		case !inside && (c == ' ' || c == '\t'):
		case !inside:
			return "", errText
		case c != '\\':
			b.WriteByte(c)
		default:
			literal, used, ok := escaped(content[i+1:])
			if !ok {
				return "", errText
			}
			b.WriteByte(literal)
			i += used
		}
	}
	if inside {
		return "", errText
	}
	return b.String(), nil
}

// escaped reads what follows a backslash: three digits or the byte itself.
func escaped(rest string) (literal byte, used int, ok bool) {
	if rest == "" {
		return 0, 0, false
	}
	if rest[0] < '0' || rest[0] > '9' {
		return rest[0], 1, true
	}
	n := 0
	for i := range 3 {
		if i >= len(rest) || rest[i] < '0' || rest[i] > '9' {
			return 0, 0, false
		}
		n = n*10 + int(rest[i]-'0')
	}
	return byte(n), 3, n < 256
}

// ReadContent puts a record's content, as zone files write it, into the form of
// dns.RRSet.
func ReadContent(of dns.Type, content string) (string, error) {
	switch of {
	case dns.TXT:
		return UnquoteText(content)
	case dns.CNAME, dns.NS:
		return PlainName(content), nil
	case dns.MX:
		preference, host, ok := strings.Cut(strings.TrimSpace(content), " ")
		if !ok {
			return "", fmt.Errorf("an MX without its preference")
		}
		return preference + " " + PlainName(strings.TrimSpace(host)), nil
	default:
		return content, nil
	}
}

// WriteContent is the way back: targets are absolute.
func WriteContent(of dns.Type, value string) string {
	switch of {
	case dns.TXT:
		return QuoteText(value)
	case dns.CNAME, dns.NS, dns.MX:
		return strings.TrimSuffix(value, ".") + "."
	default:
		return value
	}
}

// PlainName is a name in lower case without the final dot; the root stays ".".
func PlainName(name string) string {
	if plain := strings.ToLower(strings.TrimSuffix(name, ".")); plain != "" {
		return plain
	}
	return "."
}
