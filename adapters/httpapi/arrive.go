// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

var safeRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// identify gives the request its id, the caller's when that is safe to repeat,
// and looks up what it is for.
func (g *guard) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := g.look(r)
		e.id = rand.Text()
		if given := r.Header.Values("X-Request-ID"); len(given) == 1 && safeRequestID.MatchString(given[0]) {
			e.id = given[0]
		}
		w.Header().Set("X-Request-ID", e.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx := context.WithValue(ports.WithRequestID(r.Context(), e.id), exchangeKey{}, e)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// record writes one line for the request. It names the route's template, never
// the path or the query, which hold customer data.
func (g *guard) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		e := exchangeOf(r.Context())
		level := slog.LevelInfo
		line := []slog.Attr{
			slog.String("route", e.route.pattern), slog.String("client", g.clientOf(r).String()), slog.Int("status", e.status),
			slog.Float64("duration_ms", float64(time.Since(began).Microseconds())/1000),
		}
		if e.replayed {
			line = append(line, slog.Bool("replayed", true))
		}
		if e.refusal != nil {
			line = append(line, slog.String("code", e.refusal.Code.Name))
		}
		if e.status >= http.StatusInternalServerError {
			level = slog.LevelError
			line = append(line, because(e.cause))
		}
		g.log.LogAttrs(r.Context(), level, "request", line...)
	})
}

// because is what the log may say of an error: the classification of a
// provider's trouble, the text of our own.
func because(err error) slog.Attr {
	var provider *outcome.Error
	switch {
	case err == nil:
		return slog.Attr{}
	case errors.As(err, &provider):
		return slog.Group("provider", slog.String("outcome", provider.Kind.String()), slog.String("cause", provider.Cause))
	default:
		return slog.String("error", err.Error())
	}
}
