// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/http"
)

// Change reads a control call into in and then changes the state.
func Change[T any](w http.ResponseWriter, r *http.Request, f *File[T], in any, fn func(*T)) {
	err := Read(r, in)
	if err == nil {
		err = f.Do(fn)
	}
	Done(w, err)
}

// Amend changes what a control call gives of one thing in the state. of finds
// that thing, or makes it; of a call that is not understood nothing stays.
func Amend[T any](w http.ResponseWriter, r *http.Request, f *File[T], of func(*T) any) {
	Done(w, f.Try(func(all *T) error { return Read(r, of(all)) }))
}

// Alter changes the state by a control call without a body. fn says whether
// what it changes is there; missing is what the caller hears when it is not.
func Alter[T any](w http.ResponseWriter, f *File[T], missing string, fn func(*T) bool) {
	there := false
	err := f.Do(func(all *T) { there = fn(all) })
	if err == nil && !there {
		Refuse(w, http.StatusNotFound, missing)
		return
	}
	Done(w, err)
}

// Done answers a control call that changes something and says nothing. An
// error of Read's is the caller's, any other the simulator's own.
func Done(w http.ResponseWriter, err error) {
	var bad badCall
	switch {
	case errors.As(err, &bad):
		Refuse(w, http.StatusBadRequest, bad.text)
	case err != nil:
		Refuse(w, http.StatusInternalServerError, err.Error())
	default:
		Reply(w, http.StatusOK, struct{}{})
	}
}
