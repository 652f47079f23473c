// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// maxBody is the largest request body, in bytes.
const maxBody = 64 << 10

// key checks the form of the Idempotency-Key that every write carries.
func (g *guard) key(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !exchangeOf(r.Context()).route.terms.write {
			next.ServeHTTP(w, r)
			return
		}
		switch given := r.Header.Values("Idempotency-Key"); {
		case len(given) == 0:
			refuse(w, r, fault.KeyRequired.With("a write needs an Idempotency-Key header"))
		case len(given) > 1 || !visible(given[0]):
			refuse(w, r, fault.InvalidKey.With("the Idempotency-Key is not one header of 1 to 255 visible ASCII characters"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func visible(key string) bool {
	return len(key) >= 1 && len(key) <= 255 &&
		strings.IndexFunc(key, func(c rune) bool { return c < '!' || c > '~' }) < 0
}

// intake reads the body of everything that may have one, so that all that
// follows sees the same bytes.
func (g *guard) intake(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		op := e.route.op
		if op == nil || !hasBody(op.Method) {
			next.ServeHTTP(w, r)
			return
		}
		var body []byte
		var err error
		stays := g.outside(e, func() { body, err = receive(w, r, op.RequestBody != nil) })
		if err == nil && !stays {
			err = crowded()
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		r.Body = held(body)
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// held is a body that was read already.
func held(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// receive reads a body. An operation that takes none is not choosy about the
// type of an empty one.
func receive(w http.ResponseWriter, r *http.Request, wanted bool) ([]byte, error) {
	media := mediaOf(r.Header)
	if media == foreignMedia && wanted || !plain(r.Header) {
		return nil, wrongMedia()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		w.Header().Set("Connection", "close")
		return nil, fault.BodyTooLarge.With("the body is larger than 64 KiB")
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, fault.InvalidRequest.At("the body could not be read",
			fault.Field{Location: "body", Message: "broken off, too slow, or not framed as HTTP demands"})
	case len(body) > 0 && (media == foreignMedia || media == noMedia && wanted):
		return nil, wrongMedia()
	}
	return body, nil
}

func wrongMedia() error {
	return fault.WrongMedia.With("bodies are application/json in UTF-8, without a content encoding")
}

type media int

const (
	noMedia media = iota
	jsonMedia
	foreignMedia
)

func mediaOf(h http.Header) media {
	given := h.Values("Content-Type")
	if len(given) == 0 {
		return noMedia
	}
	kind, params, err := mime.ParseMediaType(given[0])
	charset, named := params["charset"]
	if err != nil || len(given) > 1 || kind != "application/json" || (named && !strings.EqualFold(charset, "utf-8")) {
		return foreignMedia
	}
	return jsonMedia
}

// plain reports whether a body comes as it is. We never inflate one.
func plain(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return false
		}
	}
	return true
}
