// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// controlError is the error of a refused control call: the status and the text of the answer.
type controlError struct {
	status int
	text   string
}

func (c controlError) Error() string { return c.text }

// BadRequest returns the error for an invalid control call. The simulator then answers with 400.
func BadRequest(text string) error { return controlError{http.StatusBadRequest, text} }

// NotFound returns the error for a control call whose object does not exist. The simulator then
// answers with 404.
func NotFound(text string) error { return controlError{http.StatusNotFound, text} }

// OneOf returns nil if value is one of the allowed values, and otherwise a BadRequest error that
// contains the name of the JSON member.
func OneOf[T comparable](member string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(allowed), " ", ", "), "[]")
	return BadRequest(fmt.Sprint(member, " must be one of ", text))
}

// controlHandler returns a handler for the common control calls. It passes calls with other paths
// to rest.
func (k *Kit) controlHandler(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/clock", func(w http.ResponseWriter, r *http.Request) {
		var c clockRequest
		err := ReadBody(r, &c)
		if err == nil {
			err = k.setClock(c)
		}
		k.answerControlCall(w, struct{}{}, err)
	})
	mux.HandleFunc("POST /_control/faults", func(w http.ResponseWriter, r *http.Request) {
		k.answerControlCall(w, struct{}{}, k.addFault(r))
	})
	mux.HandleFunc("DELETE /_control/faults", func(w http.ResponseWriter, _ *http.Request) {
		k.answerControlCall(w, struct{}{}, k.plan.Do(func(p *plan) { p.Faults = nil }))
	})
	mux.HandleFunc("GET /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		k.answerControlCall(w, k.journal.allEntries(), nil)
	})
	mux.HandleFunc("DELETE /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		k.answerControlCall(w, struct{}{}, k.journal.clear())
	})
	return ControlCalls(mux, rest)
}

func (k *Kit) addFault(r *http.Request) error {
	var f Fault
	if err := ReadBody(r, &f); err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		return BadRequest(err.Error())
	}
	if f.Provider != "" && f.Provider != k.name {
		return BadRequest("provider must be " + k.name + " or empty")
	}
	return k.plan.Do(func(p *plan) { p.Faults = append(slices.Clone(p.Faults), f) })
}

// answerControlCall answers a control call. It logs an error of the simulator itself and answers
// 500 without the error's text.
func (k *Kit) answerControlCall(w http.ResponseWriter, v any, err error) {
	if err != nil && !errors.As(err, new(controlError)) {
		k.failInternally(w, err)
		return
	}
	answerJSON(w, v, err)
}

// ReadBody decodes the JSON body of a control call into v. It refuses unknown members, so that the
// caller notices a misspelled member. If the body is empty, v stays unchanged.
func ReadBody(r *http.Request, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return BadRequest("body: " + err.Error())
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return BadRequest("body: null is not allowed")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return BadRequest("body: " + err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return BadRequest("body: more than one value")
	}
	return nil
}

// WriteJSON answers a request with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// WriteError answers a request with {"error": text}.
func WriteError(w http.ResponseWriter, status int, text string) {
	WriteJSON(w, status, map[string]string{"error": text})
}

// ControlCalls returns a handler for the control calls of mux. The handler answers 400 if the path
// exists only with a different method. If the path is unknown, the handler calls next, or answers
// 404 if next is nil.
func ControlCalls(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			withMethod := *r
			withMethod.Method = method
			if _, pattern := mux.Handler(&withMethod); pattern != "" {
				WriteError(w, http.StatusBadRequest, "this control call does not have this method, but the method "+method)
				return
			}
		}
		if next == nil {
			WriteError(w, http.StatusNotFound, "there is no such control call")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Change reads the body of a control call into in, changes the state with fn, and answers the call.
func Change[T any](w http.ResponseWriter, r *http.Request, f *File[T], in any, fn func(*T)) {
	err := ReadBody(r, in)
	if err == nil {
		err = f.Do(fn)
	}
	answerJSON(w, struct{}{}, err)
}

// answerJSON answers a control call: 200 with v, the status of a controlError, or 500 for any other
// error.
func answerJSON(w http.ResponseWriter, v any, err error) {
	var refused controlError
	switch {
	case errors.As(err, &refused):
		WriteError(w, refused.status, refused.text)
	case err != nil:
		WriteError(w, http.StatusInternalServerError, err.Error())
	default:
		WriteJSON(w, http.StatusOK, v)
	}
}
