// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// RequestIDPattern matches the values of X-Request-ID that may be used in answers and logs.
const RequestIDPattern = `^[A-Za-z0-9._-]{1,128}$`

var safeRequestID = regexp.MustCompile(RequestIDPattern)

// assignRequestID sets the request id and creates the exchange. It uses the caller's X-Request-ID
// if the value matches RequestIDPattern, otherwise a random id.
func (g *guard) assignRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := g.newExchange(r)
		e.id, e.client = rand.Text(), g.clientAddress(r)
		if values := r.Header.Values("X-Request-ID"); len(values) == 1 && safeRequestID.MatchString(values[0]) {
			e.id = values[0]
		}
		w.Header().Set("X-Request-ID", e.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx := context.WithValue(ports.WithRequestID(r.Context(), e.id), exchangeKey{}, e)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// logRequest writes one log line per request. The line contains the route template and, if the
// caller is known, the ids of the account and the key. It never contains the key itself. It never
// contains the path or the query, because they contain customer data.
func (g *guard) logRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		e := exchangeOf(r.Context())
		level := slog.LevelInfo
		line := []slog.Attr{
			slog.String("route", e.route.pattern), slog.String("client", e.client.String()), slog.Int("status", e.status),
			slog.Float64("duration_ms", float64(time.Since(began).Microseconds())/1000),
		}
		if e.caller.KeyID != "" {
			line = append(line, slog.String("account_id", string(e.caller.Account.ID)), slog.String("key_id", e.caller.KeyID))
		}
		if e.wasReplayed {
			line = append(line, slog.Bool("replayed", true))
		} else if e.refusal != nil {
			line = append(line, slog.String("code", e.refusal.Code.Name))
		}
		switch {
		case e.streamErr != nil:
			level = slog.LevelWarn
			line = append(line, slog.Bool("incomplete", true), errorAttr(e.streamErr))
		case e.status >= http.StatusInternalServerError && !e.gotNoSlot:
			level = slog.LevelError
			line = append(line, errorAttr(e.cause))
		}
		g.log.LogAttrs(r.Context(), level, "request", line...)
	})
}

// errorAttr returns the log attribute for err. For a provider error the attribute contains only the
// classification, because the text of a provider can contain customer data. For any other error it
// contains the text.
func errorAttr(err error) slog.Attr {
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

// clientAddress returns the IP address that sent the request, or the zero address if it is unknown.
// It starts with the peer of the connection. While that address is a trusted proxy, it takes the
// next entry of X-Forwarded-For, from right to left. Entries left of the first untrusted address
// can be forged, so they are ignored.
//
// The address is used in the log, in audit entries, in the count of limitInFlight, and for keys
// that are limited to some addresses.
func (g *guard) clientAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap().WithZone("")
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !g.isTrustedProxy(client) {
			break
		}
		next, ok := parseForwarded(strings.TrimSpace(entry))
		if !ok {
			break
		}
		client = next.Unmap().WithZone("")
	}
	return client
}

// parseForwarded parses an entry of X-Forwarded-For. Some proxies add the port of the client, or
// write an IPv6 address in brackets.
func parseForwarded(entry string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(entry); err == nil {
		return withPort.Addr(), true
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		entry = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(entry)
	return a, err == nil
}

func (g *guard) isTrustedProxy(a netip.Addr) bool {
	return slices.ContainsFunc(g.trustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
