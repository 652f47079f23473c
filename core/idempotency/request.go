// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/tenantry/tenantry/core/ident"
)

// Request is what makes two requests the same.
type Request struct {
	Method string
	Path   string // as it was sent, escaped
	Query  string // raw
	Body   []byte // raw
}

// Text is what the fingerprint is made of. Each part is led by its length, so
// that no two requests share a text.
func (r Request) Text() []byte {
	body := sha256.Sum256(r.Body)
	var text []byte
	for _, part := range []string{r.Method, canonical(r.Path), r.Query, string(body[:])} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	return text
}

// canonical is a path with its ids in lower case: an id means the same in any
// case.
func canonical(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if id, ok := ident.Parse(s); ok {
			segments[i] = id
		}
	}
	return strings.Join(segments, "/")
}
