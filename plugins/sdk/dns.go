// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
)

var errMalformedText = errors.New("malformed TXT content")

// QuoteText returns a text in the format of zone files (RFC 1035, 5.1). The result consists of
// quoted strings. Each string stands for at most 255 bytes of the text. Quotes and backslashes are
// escaped with a backslash, and bytes that are not printable ASCII with \DDD.
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

// UnquoteText joins the quoted strings of a TXT content in the format of zone files, and returns
// the text. Content that does not begin with a quote is returned unchanged. UnquoteText fails if
// quotes or escapes are malformed.
func UnquoteText(content string) (string, error) {
	if !strings.HasPrefix(content, `"`) {
		return content, nil
	}
	var b strings.Builder
	inQuotes := false
	for i := 0; i < len(content); i++ {
		c := content[i]
		switch {
		case c == '"':
			inQuotes = !inQuotes
		case !inQuotes && (c == ' ' || c == '\t'):
		case !inQuotes:
			return "", errMalformedText
		case c != '\\':
			b.WriteByte(c)
		default:
			literal, used, ok := decodeEscape(content[i+1:])
			if !ok {
				return "", errMalformedText
			}
			b.WriteByte(literal)
			i += used
		}
	}
	if inQuotes {
		return "", errMalformedText
	}
	return b.String(), nil
}

// decodeEscape decodes the text after a backslash: three decimal digits, or one literal byte.
func decodeEscape(rest string) (literal byte, used int, ok bool) {
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

// ReadContent converts the content of a record from the format of zone files to a value of
// dns.RRSet. It fails for a malformed TXT content, and for an MX content without a preference.
func ReadContent(of dns.Type, content string) (string, error) {
	switch of {
	case dns.TXT:
		return UnquoteText(content)
	case dns.CNAME, dns.NS:
		return PlainName(content), nil
	case dns.MX:
		preference, host, ok := strings.Cut(strings.TrimSpace(content), " ")
		if !ok {
			return "", errors.New("the MX content has no preference")
		}
		return preference + " " + PlainName(strings.TrimSpace(host)), nil
	default:
		return content, nil
	}
}

// WriteContent converts a value of dns.RRSet to the format of zone files, the inverse of
// ReadContent. The host names of CNAME, NS and MX records get a final dot.
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

// PlainName returns a name in lower case without the final dot. The root stays ".".
func PlainName(name string) string {
	if plain := strings.ToLower(strings.TrimSuffix(name, ".")); plain != "" {
		return plain
	}
	return "."
}

// ReadBack reads a zone after a write, checks that the zone has the changes, and returns its record
// sets. If a change is missing, ReadBack returns a BrokenAnswer error. If the error of the read
// says that nothing was changed, ReadBack returns an UnknownEffect error instead, because the write
// may have changed the zone. It returns other errors of the read unchanged.
func ReadBack(ctx context.Context, p DNSProvider, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	sets, err := p.Records(ctx, zone)
	if err != nil {
		if outcome.ChangedNothing(err) {
			err = UnknownEffect("not_read_back")
		}
		return nil, err
	}
	for _, c := range changes {
		if !c.IsMade(sets) {
			return nil, BrokenAnswer("missing_after_write")
		}
	}
	return sets, nil
}

// SetsAfter returns for each change the record set in sets that has the name and type of the
// change. DNSProvider.Apply returns this list.
func SetsAfter(sets []dns.RRSet, changes []dns.Change) []dns.RRSet {
	var after []dns.RRSet
	for _, c := range changes {
		after = append(after, dns.Find(sets, c.After.Name, c.After.Type))
	}
	return after
}

// ZoneLocks serializes the writes to a zone within this process. It is for providers that need one
// request to compare the zone and a second request to write it. Two zones can have the same lock,
// so a caller must not hold two locks at once.
type ZoneLocks struct {
	seed  maphash.Seed
	locks [256]chan struct{}
}

// NewZoneLocks returns locks that nobody holds.
func NewZoneLocks() *ZoneLocks {
	l := &ZoneLocks{seed: maphash.MakeSeed()}
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1)
	}
	return l
}

// Hold waits for the lock of a zone and returns the function that releases it. If ctx ends first,
// it fails with TransportError(ctx.Err()).
func (l *ZoneLocks) Hold(ctx context.Context, zone string) (release func(), err error) {
	lock := l.locks[maphash.String(l.seed, zone)%uint64(len(l.locks))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, TransportError(ctx.Err())
	}
}
