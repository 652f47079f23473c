// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/fault"
)

// maxBody is more than any call needs, the records of a large zone included.
const maxBody = 4 << 20

// badCall is a call that makes no sense: 400.
type badCall string

func (b badCall) Error() string { return string(b) }

// missing is a thing that does not exist: 404.
type missing string

func (m missing) Error() string { return string(m) }

// later is a call that a later issue needs: 501.
type later string

func (l later) Error() string { return string(l) }

// failedFlow is a consent that did not end in a connected tenant: 409.
type failedFlow struct {
	Text   string `json:"error"`
	Status int    `json:"page_status"`
}

func (f failedFlow) Error() string { return f.Text }

// done is the answer where there is nothing to say.
type done struct{}

// call is one call of the control or world interface.
type call func(r *http.Request) (any, error)

// handle answers calls in JSON.
func handle(log *slog.Logger, c call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := c(r)
		if err != nil {
			answer = refusal(log, r, err)
		}
		passed, ok := answer.(relayed)
		if !ok {
			passed = encode(http.StatusOK, answer)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(passed.status)
		_, _ = w.Write(passed.body)
	})
}

// relayed is an answer that is passed on as it is.
type relayed struct {
	status int
	body   []byte
}

func encode(status int, v any) relayed {
	body, err := json.Marshal(v)
	if err != nil {
		return relayed{http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)}
	}
	return relayed{status, append(body, '\n')}
}

// refusal is the answer for err. What a caller cannot mend is logged.
func refusal(log *slog.Logger, r *http.Request, err error) relayed {
	status := statusOf(err)
	if flow := (failedFlow{}); errors.As(err, &flow) {
		return encode(http.StatusConflict, flow)
	}
	if status == http.StatusInternalServerError {
		log.ErrorContext(r.Context(), "sandbox call failed", "call", r.Pattern, "error", err)
	}
	return encode(status, map[string]string{"error": err.Error()})
}

func statusOf(err error) int {
	var refused *fault.Error
	switch {
	case errors.As(err, new(badCall)), errors.As(err, new(zones.Invalid)), errors.As(err, new(*http.MaxBytesError)):
		return http.StatusBadRequest
	case errors.As(err, new(missing)), errors.Is(err, zones.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, zones.ErrMoved):
		return http.StatusConflict
	case errors.As(err, new(later)):
		return http.StatusNotImplemented
	case errors.As(err, &refused) && refused.Code.Kind == fault.NotFound:
		return http.StatusNotFound
	case errors.As(err, &refused) && refused.Code.Kind < fault.Internal:
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// read decodes the body of a call. A member that the call does not know is an
// error: a misspelled one would change nothing unseen.
func read(r *http.Request, v any) error {
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil {
		if bad := zones.Invalid(""); errors.As(err, &bad) {
			return bad
		}
		return badCall(fmt.Sprintf("body: %v", err))
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return badCall("body: more than one value")
	}
	return nil
}
