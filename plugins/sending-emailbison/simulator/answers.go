// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// pageSize is Laravel's.
const pageSize = 15

func data(w http.ResponseWriter, v any) {
	simulate.Reply(w, http.StatusOK, map[string]any{"data": v})
}

func say(w http.ResponseWriter, status int, message string) {
	simulate.Reply(w, status, map[string]string{"message": message})
}

func notFound(w http.ResponseWriter) {
	simulate.Reply(w, http.StatusNotFound, map[string]any{"data": map[string]any{"success": false, "message": "Record not found."}})
}

// invalid answers with what does not pass validation, field by field.
func invalid(w http.ResponseWriter, field, message string) {
	simulate.Reply(w, http.StatusUnprocessableEntity, map[string]any{"message": message, "errors": map[string][]string{field: {message}}})
}

func done(w http.ResponseWriter, err error, v any) {
	if err != nil {
		say(w, http.StatusInternalServerError, err.Error())
		return
	}
	data(w, v)
}

// Fail implements simulate.Provider.
func (e *emailbison) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	switch status {
	case http.StatusUnauthorized:
		say(w, status, "Unauthenticated.")
	case http.StatusForbidden:
		say(w, status, "This action is unauthorized.")
	case http.StatusNotFound:
		notFound(w)
	case http.StatusUnprocessableEntity:
		invalid(w, "search", "The search field is invalid.")
	case http.StatusTooManyRequests:
		say(w, status, "Too Many Attempts.")
	default:
		say(w, status, "Server Error")
	}
}

// paged answers with one page of a list.
func paged[T any](w http.ResponseWriter, r *http.Request, all []T, size int) {
	number := 1
	if text := r.URL.Query().Get("page"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			number = n // Laravel takes what is no number for the first
		}
	}
	last := max(1, (len(all)+size-1)/size)
	from := min((number-1)*size, len(all))
	some := append([]T{}, all[from:min(from+size, len(all))]...)
	link := func(n int) any {
		if n < 1 || n > last {
			return nil
		}
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(n))
		return (&url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}).String()
	}
	simulate.Reply(w, http.StatusOK, map[string]any{
		"data":  some,
		"links": map[string]any{"first": link(1), "last": link(last), "prev": link(number - 1), "next": link(number + 1)},
		"meta": map[string]any{
			"current_page": number, "last_page": last, "per_page": size, "total": len(all), "path": "http://" + r.Host + r.URL.Path,
			"from": from + 1, "to": from + len(some),
		},
	})
}

const (
	limit  = 3000
	window = time.Minute
)

// limits counts the calls of the instance, whoever makes them.
type limits struct {
	now   func() time.Time
	mu    sync.Mutex
	since time.Time
	calls int
}

func (l *limits) pass(w http.ResponseWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.since) >= window {
		l.since, l.calls = now, 0
	}
	l.calls++
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(limit))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(0, limit-l.calls)))
	if l.calls <= limit {
		return true
	}
	wait := window - now.Sub(l.since)
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	say(w, http.StatusTooManyRequests, "Too Many Attempts.")
	return false
}
