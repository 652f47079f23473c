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

// badCall is a control call that makes no sense.
type badCall struct{ text string }

func (b badCall) Error() string { return b.text }

// controls serves the shared part of the control interface, and hands the rest
// on.
func (k *Kit) controls(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/clock", func(w http.ResponseWriter, r *http.Request) {
		var c clockCall
		err := Read(r, &c)
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
		k.done(w, k.journal.list(), nil)
	})
	mux.HandleFunc("DELETE /_control/calls", func(w http.ResponseWriter, _ *http.Request) {
		k.done(w, struct{}{}, k.journal.empty())
	})
	return Calls(mux, rest)
}

func (k *Kit) addFault(r *http.Request) error {
	var f Fault
	if err := Read(r, &f); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return badCall{err.Error()}
	}
	if f.Provider != "" && f.Provider != k.name {
		return badCall{"this is the simulator of " + k.name}
	}
	return k.plan.Do(func(p *plan) { p.Faults = append(slices.Clone(p.Faults), f) })
}

func (k *Kit) done(w http.ResponseWriter, v any, err error) {
	var bad badCall
	switch {
	case errors.As(err, &bad):
		Refuse(w, http.StatusBadRequest, bad.text)
	case err != nil:
		k.broken(w, err)
	default:
		Reply(w, http.StatusOK, v)
	}
}

// Read decodes the JSON body of a control call. A member that the call does
// not know is an error: a misspelled knob would change nothing unseen.
func Read(r *http.Request, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return badCall{"body: " + err.Error()}
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return badCall{"body: null is no call"}
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return badCall{"body: " + err.Error()}
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return badCall{"body: more than one value"}
	}
	return nil
}

// Reply answers a control call with v as JSON.
func Reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Refuse answers a control call with {"error": text}.
func Refuse(w http.ResponseWriter, status int, text string) {
	Reply(w, status, map[string]string{"error": text})
}
