// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/adapters/httpapi/pages"
)

// cachedDocument is a document in the two encodings in which it is served. All answers share its
// strings: package guard does not copy a whole string to send it.
type cachedDocument struct {
	plain, compressed string
	tag               string // the beginning of the hash of plain
}

func newCachedDocument(plain []byte) cachedDocument {
	var compressed strings.Builder
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // fails only for an unknown level
	_, _ = w.Write(plain)                                          // writes to memory, cannot fail
	_ = w.Close()
	sum := sha256.Sum256(plain)
	return cachedDocument{string(plain), compressed.String(), hex.EncodeToString(sum[:8])}
}

// serveDocument serves the OpenAPI document in one notation, JSON or YAML, compressed if the client
// accepts gzip. A client that has the current document gets 304. The document is built and
// compressed at the first request, so that the service starts sooner.
func serveDocument(contentType string, notation func(openapi.Documents) []byte) http.HandlerFunc {
	build := sync.OnceValues(func() (cachedDocument, error) {
		d, err := Document()
		if err != nil {
			return cachedDocument{}, err
		}
		return newCachedDocument(notation(d)), nil
	})
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := build()
		if err != nil {
			guard.Refuse(w, r, err)
			return
		}
		body, tag := d.plain, `"`+d.tag+`"`
		w.Header().Set("Vary", "Accept-Encoding")
		w.Header().Set("Cache-Control", "public, max-age=300")
		if pages.AcceptsExplicitly(r.Header.Values("Accept-Encoding"), "gzip") {
			body, tag = d.compressed, `"`+d.tag+`-gzip"`
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("ETag", tag)
		if hasTag(r.Header.Values("If-None-Match"), tag) {
			w.Header().Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body) // writes to memory, cannot fail
	}
}

// hasTag reports whether an If-None-Match header contains the tag, or a star, which matches every
// tag. A weak tag (W/) matches too, because RFC 9110 requires this for If-None-Match.
func hasTag(header []string, tag string) bool {
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "*" || strings.TrimPrefix(entry, "W/") == tag {
			return true
		}
	}
	return false
}
