// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
)

// badRequestError is the error of an invalid control call. It is answered with 400.
type badRequestError struct{ text string }

func (b badRequestError) Error() string { return b.text }

// controlHandler returns a handler for the common control calls. It passes all other calls to rest.
func (k *Kit) controlHandler(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/clock", func(w http.ResponseWriter, r *http.Request) {
		var c clockRequest
		err := ReadBody(r, &c)
		if err == nil {
			err = k.setClock(c)
		}
		k.done(w, struct{}{}, err)
	})
	mux.HandleFunc("POST /_control/faults", func(w http.ResponseWriter, r *http.Request) {
		k.done(w, struct{}{}, k.addFault(r))
	})
	mux.HandleFunc("DELETE /_control/faults", func(w http.ResponseWriter, _ *http.Request) {
		k.done(w, struct{}{}, k.plan.Do(func(p *plan) { p.Faults = nil }))
	})
	mux.HandleFunc("GET /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		k.done(w, k.journal.all(), nil)
	})
	mux.HandleFunc("DELETE /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		k.done(w, struct{}{}, k.journal.clear())
	})
	return ControlCalls(mux, rest)
}

func (k *Kit) addFault(r *http.Request) error {
	var f Fault
	if err := ReadBody(r, &f); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return badRequestError{err.Error()}
	}
	if f.Provider != "" && f.Provider != k.name {
		return badRequestError{"this is the simulator of " + k.name}
	}
	return k.plan.Do(func(p *plan) { p.Faults = append(slices.Clone(p.Faults), f) })
}

func (k *Kit) done(w http.ResponseWriter, v any, err error) {
	var bad badRequestError
	switch {
	case errors.As(err, &bad):
		WriteError(w, http.StatusBadRequest, bad.text)
	case err != nil:
		k.failInternally(w, err)
	default:
		WriteJSON(w, http.StatusOK, v)
	}
}

// ReadBody decodes the JSON body of a control call into v. An unknown member is an error, because a
// misspelled member would otherwise be ignored silently. An empty body leaves v unchanged.
func ReadBody(r *http.Request, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return badRequestError{"body: " + err.Error()}
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return badRequestError{"body: null is not allowed"}
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return badRequestError{"body: " + err.Error()}
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return badRequestError{"body: more than one value"}
	}
	return nil
}

// WriteJSON answers a control call with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// WriteError answers a control call with {"error": text}.
func WriteError(w http.ResponseWriter, status int, text string) {
	WriteJSON(w, status, map[string]string{"error": text})
}

// ControlCalls returns a handler for the control calls of mux. It answers 400 when the path exists only
// with a different method. It passes unknown paths to next, or answers 404 if next is nil.
func ControlCalls(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				WriteError(w, http.StatusBadRequest, "there is no such control call: the method is "+method)
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
	ReplyDone(w, err)
}

// MergeBody decodes the body of a control call over an object in the state: members that the body does
// not have keep their values. of returns a pointer to the object and may create it. After an
// invalid call the state is unchanged, and a created object is discarded.
func MergeBody[T any](w http.ResponseWriter, r *http.Request, f *File[T], of func(*T) any) {
	ReplyDone(w, f.Try(func(all *T) error { return ReadBody(r, of(all)) }))
}

// ChangeOrNotFound changes the state with fn for a control call without a body. fn returns false if
// the object to change does not exist. The call is then answered with 404 and the text missing.
func ChangeOrNotFound[T any](w http.ResponseWriter, f *File[T], missing string, fn func(*T) bool) {
	found := false
	err := f.Do(func(all *T) { found = fn(all) })
	if err == nil && !found {
		WriteError(w, http.StatusNotFound, missing)
		return
	}
	ReplyDone(w, err)
}

// ReplyDone answers a control call: 200 with an empty object, 400 for an error of Read, or 500 for any
// other error.
func ReplyDone(w http.ResponseWriter, err error) {
	var bad badRequestError
	switch {
	case errors.As(err, &bad):
		WriteError(w, http.StatusBadRequest, bad.text)
	case err != nil:
		WriteError(w, http.StatusInternalServerError, err.Error())
	default:
		WriteJSON(w, http.StatusOK, struct{}{})
	}
}
