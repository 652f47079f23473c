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

// pageSize is the default page size of Laravel.
const pageSize = 15

func replyData(w http.ResponseWriter, v any) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"data": v})
}

func replyMessage(w http.ResponseWriter, status int, message string) {
	simulate.WriteJSON(w, status, map[string]string{"message": message})
}

func replyNotFound(w http.ResponseWriter) {
	simulate.WriteJSON(w, http.StatusNotFound, map[string]any{"data": map[string]any{"success": false, "message": "Record not found."}})
}

// replyInvalid answers 422 for a field that fails validation.
func replyInvalid(w http.ResponseWriter, field, message string) {
	simulate.WriteJSON(w, http.StatusUnprocessableEntity, map[string]any{"message": message, "errors": map[string][]string{field: {message}}})
}

// replyResult answers with v, or with 500 when the state could not be stored.
func replyResult(w http.ResponseWriter, err error, v any) {
	if err != nil {
		replyMessage(w, http.StatusInternalServerError, err.Error())
		return
	}
	replyData(w, v)
}

// Fail implements simulate.Provider.
func (e *emailbison) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	switch status {
	case http.StatusUnauthorized:
		replyMessage(w, status, "Unauthenticated.")
	case http.StatusForbidden:
		replyMessage(w, status, "This action is unauthorized.")
	case http.StatusNotFound:
		replyNotFound(w)
	case http.StatusUnprocessableEntity:
		replyInvalid(w, "search", "The search field is invalid.")
	case http.StatusTooManyRequests:
		replyMessage(w, status, "Too Many Attempts.")
	default:
		replyMessage(w, status, "Server Error")
	}
}

// replyPage answers with the page of all that r asks for.
func replyPage[T any](w http.ResponseWriter, r *http.Request, all []T, size int) {
	number := 1
	if text := r.URL.Query().Get("page"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			number = n // Laravel reads an invalid number as 1
		}
	}
	last := max(1, (len(all)+size-1)/size)
	from := min((number-1)*size, len(all))
	entries := append([]T{}, all[from:min(from+size, len(all))]...)
	link := func(n int) any {
		if n < 1 || n > last {
			return nil
		}
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(n))
		return (&url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}).String()
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{
		"data":  entries,
		"links": map[string]any{"first": link(1), "last": link(last), "prev": link(number - 1), "next": link(number + 1)},
		"meta": map[string]any{
			"current_page": number, "last_page": last, "per_page": size, "total": len(all), "path": "http://" + r.Host + r.URL.Path,
			"from": from + 1, "to": from + len(entries),
		},
	})
}

const (
	limit  = 3000
	window = time.Minute
)

// rateLimiter counts the calls of all tokens of the instance in fixed windows.
type rateLimiter struct {
	now   func() time.Time
	mu    sync.Mutex
	start time.Time // of the current window
	calls int
}

// allow counts one call and sets the rate-limit headers. Over the limit it answers 429 and returns
// false.
func (l *rateLimiter) allow(w http.ResponseWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.start) >= window {
		l.start, l.calls = now, 0
	}
	l.calls++
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(limit))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(0, limit-l.calls)))
	if l.calls <= limit {
		return true
	}
	wait := window - now.Sub(l.start)
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	replyMessage(w, http.StatusTooManyRequests, "Too Many Attempts.")
	return false
}
