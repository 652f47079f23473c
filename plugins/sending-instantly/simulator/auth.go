// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// operation is an operation of the API with the scope that it requires.
type operation struct {
	scope string
	serve func(w http.ResponseWriter, r *http.Request, in *workspace)
}

// authorized serves o after it has checked the key, the rate limits, the scope, the plan and the
// body.
func (s *instantly) authorized(o operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		if header == "" {
			refuse(w, http.StatusUnauthorized, "Missing Authorization header")
			return
		}
		token, _ := strings.CutPrefix(header, "Bearer ")
		k, in, known := s.find(token)
		switch {
		case !known:
			refuse(w, http.StatusUnauthorized, "Invalid API key")
		case !s.limiter.allow("all "+in.ID, perSecond, perMinute):
			refuse(w, http.StatusTooManyRequests, "Rate limit exceeded")
		case !k.hasScope(o.scope):
			refuse(w, http.StatusForbidden, "The API key lacks the scope "+o.scope)
		case in.Inactive:
			refuse(w, http.StatusPaymentRequired, "Workspace does not have an active paid plan")
		case emptyJSON(r):
			refuse(w, http.StatusBadRequest, "Body cannot be empty when content-type is set to 'application/json'")
		default:
			o.serve(w, r, in)
		}
	})
}

// find returns the key of a token and a copy of its workspace without the accounts. known is false
// for a revoked key too.
func (s *instantly) find(token string) (k key, in *workspace, known bool) {
	s.file.View(func(all *state) {
		k, known = all.Keys[token]
		if w := all.Workspaces[k.Workspace]; known && w != nil {
			in = &workspace{ID: w.ID, Name: w.Name, Inactive: w.Inactive, Created: w.Created}
		}
	})
	return k, in, known && in != nil && !k.Revoked
}

// hasScope reports whether one of the scopes of the key covers scope.
func (k key) hasScope(scope string) bool {
	resource, action, _ := strings.Cut(scope, ":")
	return slices.ContainsFunc([]string{scope, resource + ":all", "all:" + action, "all:all"}, func(s string) bool {
		return slices.Contains(k.Scopes, s)
	})
}

// emptyJSON reports whether r is a write with the content type of JSON and an empty body, which
// Instantly's framework refuses.
func emptyJSON(r *http.Request) bool {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	return err == nil && len(body) == 0
}

// rate allows at most limit calls in any window.
type rate struct {
	limit  int
	window time.Duration
}

var (
	perSecond         = rate{100, time.Second}
	perMinute         = rate{6000, time.Minute}
	startsByWorkspace = rate{75, time.Minute}
	startsByAddress   = rate{150, time.Minute}
)

// rateLimiter counts by the machine's clock, because the sandbox's clock moves only when it is
// advanced.
type rateLimiter struct {
	mu    sync.Mutex
	calls map[string][]time.Time // the times of recent calls, by what is counted
}

func newRateLimiter() *rateLimiter { return &rateLimiter{calls: map[string][]time.Time{}} }

// allow counts one call and returns true, or returns false when the call exceeds a rate.
func (l *rateLimiter) allow(what string, rates ...rate) bool { return l.wait(what, rates...) == 0 }

// wait counts one call and returns 0, or returns how long to wait when the call exceeds a rate.
func (l *rateLimiter) wait(what string, rates ...rate) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, kept := time.Now(), l.calls[what]
	longest := slices.MaxFunc(rates, func(a, b rate) int { return int(a.window - b.window) }).window
	for len(kept) > 0 && now.Sub(kept[0]) >= longest {
		kept = kept[1:]
	}
	l.calls[what] = kept
	for _, r := range rates {
		if len(kept) >= r.limit {
			if left := r.window - now.Sub(kept[len(kept)-r.limit]); left > 0 {
				return left
			}
		}
	}
	l.calls[what] = append(kept, now)
	return 0
}

// startThrottled answers 429 and returns true when a start of OAuth exceeds the limit of the
// workspace or of the caller's IP address.
func (s *instantly) startThrottled(w http.ResponseWriter, r *http.Request, in *workspace) bool {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	wait := s.limiter.wait("start from "+address, startsByAddress)
	if wait == 0 {
		wait = s.limiter.wait("start in "+in.ID, startsByWorkspace)
	}
	if wait == 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	refuse(w, http.StatusTooManyRequests, "Rate limit exceeded for OAuth session creation")
	return true
}
