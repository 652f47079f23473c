// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// userKey is the context key of the id of the user who makes a request.
type userKey struct{}

func withUser(ctx context.Context, id int) context.Context {
	return context.WithValue(ctx, userKey{}, id)
}

// user returns the id of the user who makes the request.
func user(r *http.Request) int {
	id, _ := r.Context().Value(userKey{}).(int)
	return id
}

// fail answers with the most common of the three error formats.
func fail(w http.ResponseWriter, status int, message string) {
	simulate.WriteJSON(w, status, map[string]any{"message": message})
}

// invalid answers 422 with the format of a failed validation.
func invalid(w http.ResponseWriter, message string) {
	simulate.WriteJSON(w, http.StatusUnprocessableEntity, map[string]any{"error": message})
}

// tooMany answers 429 with the format of an exceeded rate limit.
func tooMany(w http.ResponseWriter, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	simulate.WriteJSON(w, http.StatusTooManyRequests, map[string]any{"error": map[string]any{
		"code": "RATE_LIMIT_EXCEEDED", "message": fmt.Sprintf("Rate limit exceeded. Try again in %d seconds", seconds), "retry_after": seconds,
	}})
}

// Fail implements simulate.Provider.
func (s *smartlead) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	switch {
	case status == http.StatusTooManyRequests && retryAfter > 0:
		tooMany(w, retryAfter)
	case status == http.StatusTooManyRequests:
		simulate.WriteJSON(w, status, map[string]any{"error": map[string]any{"code": "RATE_LIMIT_EXCEEDED", "message": "Rate limit exceeded", "retry_after": 30}})
	case status == http.StatusBadRequest:
		simulate.WriteJSON(w, status, map[string]any{"error": "Bad Request", "message": "something about the request"})
	case status == http.StatusUnprocessableEntity:
		invalid(w, "something about a field")
	case status >= http.StatusInternalServerError:
		simulate.WriteJSON(w, status, map[string]any{"success": false, "error": map[string]string{"code": "INTERNAL_ERROR", "message": http.StatusText(status)}})
	default:
		fail(w, status, http.StatusText(status))
	}
}
