// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"

	"github.com/tenantry/tenantry/core/fault"
)

// rescue holds the answer back until the handler is done and turns a panic
// into internal_error.
func (g *guard) rescue(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := w.Header().Clone()
		a := newAnswer(before)
		if !g.survived(func() { next.ServeHTTP(a, r) }, r) {
			a = newAnswer(before)
			refuse(a, r, fault.InternalError)
		}
		exchangeOf(r.Context()).status = a.status
		a.send(w)
	})
}

// survived runs work and logs a panic: its type and where it was, but no
// value, which may hold anything that a caller sent.
func (g *guard) survived(work func(), r *http.Request) (done bool) {
	defer func() {
		if v := recover(); v != nil {
			g.log.LogAttrs(r.Context(), slog.LevelError, "panic",
				slog.String("type", fmt.Sprintf("%T", v)), slog.Any("stack", stack()))
		}
	}()
	work()
	return true
}

// stack is the functions and lines that led to a panic, without arguments.
func stack() []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var lines []string
	for {
		f, more := frames.Next()
		lines = append(lines, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if !more {
			return lines
		}
	}
}
