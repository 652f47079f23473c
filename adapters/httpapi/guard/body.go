// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// MaxBody is the size limit of a request body in bytes. maxForm is the limit of a page's form.
const (
	MaxBody = 64 << 10
	maxForm = 4 << 10
)

// readBody reads the request body into memory, so that all later steps see the same bytes. A
// request for an operation is answered with 413 if the body is too large. It is answered with 415
// for a content encoding or a wrong Content-Type, and with 400 if the body is not complete. For a
// page, readForm reads the body. The request holds no in-flight slot while the body is read. If no
// slot is free afterwards, the answer is 503. A client can send the body slowly, so an operation's
// API key and plan are checked again afterwards, with the answer 401 or 402.
func (g *guard) readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		op := e.route.op
		if takesBody := e.isPage && mayHaveBody(r.Method) || op != nil && mayHaveBody(op.Method); !takesBody {
			next.ServeHTTP(w, r)
			return
		}
		var body []byte
		var err error
		read := func() {
			setClientWait(r.Context(), true)
			defer setClientWait(r.Context(), false)
			if e.isPage {
				body = readForm(w, r, e)
				return
			}
			body, err = readJSONBody(w, r, e, requiresBody(op))
		}
		var waitErr error
		if r.Body == http.NoBody {
			read() // does not wait
		} else {
			waitErr = WaitWithoutSlot(r.Context(), read)
		}
		if err = cmp.Or(err, waitErr); err != nil {
			Refuse(w, r, err)
			return
		}
		r.Body = bufferedBody(body)
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

func requiresBody(op *huma.Operation) bool { return op.RequestBody != nil && op.RequestBody.Required }

// readForm reads the body of a request for a page. It returns nil if the body is larger than
// maxForm or cannot be read. The page refuses an empty form, because its fields are missing.
func readForm(w http.ResponseWriter, r *http.Request, e *exchange) []byte {
	body, err := e.readAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil
	}
	return body
}

func bufferedBody(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// readJSONBody reads the body and checks its media type. required is true if the request must have
// a body. If it is false, the body may be empty, and an empty body can have any Content-Type.
func readJSONBody(w http.ResponseWriter, r *http.Request, e *exchange, required bool) ([]byte, error) {
	media := mediaTypeOf(r.Header)
	if media == otherMediaType && required || !isUnencoded(r.Header) {
		return nil, wrongMediaError()
	}
	if r.ContentLength > MaxBody {
		return nil, bodyTooLargeError() // without waiting for the body
	}
	body, err := e.readAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, bodyTooLargeError()
	case err != nil:
		return nil, refusal.Invalid("the body could not be read",
			refusal.ProblemField{Location: "body", Message: "incomplete, too slow, or with invalid HTTP framing"})
	case len(body) > 0 && (media == otherMediaType || media == noMediaType && required):
		return nil, wrongMediaError()
	}
	return body, nil
}

func bodyTooLargeError() error { return fault.BodyTooLarge.With("the body is larger than 64 KiB") }

func wrongMediaError() error {
	return fault.WrongMedia.With("bodies must be application/json in UTF-8, without a content encoding")
}

type mediaType int

const (
	noMediaType mediaType = iota
	jsonMediaType
	otherMediaType
)

func mediaTypeOf(h http.Header) mediaType {
	values := h.Values("Content-Type")
	if len(values) == 0 {
		return noMediaType
	}
	kind, params, err := mime.ParseMediaType(values[0])
	charset, hasCharset := params["charset"]
	if err != nil || len(values) > 1 || kind != "application/json" || (hasCharset && !strings.EqualFold(charset, "utf-8")) {
		return otherMediaType
	}
	return jsonMediaType
}

// isUnencoded reports whether the body has no content encoding. The API does not decompress bodies.
func isUnencoded(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return false
		}
	}
	return true
}
