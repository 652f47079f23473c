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

// operation is one of the API, with the scope that it needs.
type operation struct {
	scope string
	do    func(w http.ResponseWriter, r *http.Request, in *workspace)
}

// guarded takes the steps before the work: key, limits, scope, plan, body.
func (s *instantly) guarded(o operation) http.Handler {
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
		case !s.limits.allow("all "+in.ID, perSecond, perMinute):
			refuse(w, http.StatusTooManyRequests, "Rate limit exceeded")
		case !k.may(o.scope):
			refuse(w, http.StatusForbidden, "The API key lacks the scope "+o.scope)
		case in.Inactive:
			refuse(w, http.StatusPaymentRequired, "Workspace does not have an active paid plan")
		case emptyJSON(r):
			refuse(w, http.StatusBadRequest, "Body cannot be empty when content-type is set to 'application/json'")
		default:
			o.do(w, r, in)
		}
	})
}

// find looks a key up. What it returns is a copy.
func (s *instantly) find(token string) (k key, in *workspace, known bool) {
	s.file.View(func(all *state) {
		k, known = all.Keys[token]
		if w := all.Workspaces[k.Workspace]; known && w != nil {
			in = &workspace{ID: w.ID, Name: w.Name, Inactive: w.Inactive, Created: w.Created}
		}
	})
	return k, in, known && in != nil && !k.Revoked
}

// may reports whether one of the scopes covers what is asked for.
func (k key) may(scope string) bool {
	resource, action, _ := strings.Cut(scope, ":")
	return slices.ContainsFunc([]string{scope, resource + ":all", "all:" + action, "all:all"}, func(s string) bool {
		return slices.Contains(k.Scopes, s)
	})
}

// emptyJSON is what Instantly's framework refuses: a body that is announced as
// JSON and is not there.
func emptyJSON(r *http.Request) bool {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	return err == nil && len(body) == 0
}

// rate is at most so many calls in any window.
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

// limits count by the machine's clock: those of a simulated one would never
// end while nobody moves it.
type limits struct {
	mu    sync.Mutex
	calls map[string][]time.Time
}

func newLimits() *limits { return &limits{calls: map[string][]time.Time{}} }

// allow counts one call, unless it is one too many for any of the rates.
func (l *limits) allow(what string, rates ...rate) bool { return l.wait(what, rates...) == 0 }

// wait is allow that tells how long to stay away.
func (l *limits) wait(what string, rates ...rate) time.Duration {
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

// limited refuses a start of OAuth that is too much for the workspace or the
// caller's address.
func (s *instantly) limited(w http.ResponseWriter, r *http.Request, in *workspace) bool {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	wait := s.limits.wait("start from "+address, startsByAddress)
	if wait == 0 {
		wait = s.limits.wait("start in "+in.ID, startsByWorkspace)
	}
	if wait == 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	refuse(w, http.StatusTooManyRequests, "Rate limit exceeded for OAuth session creation")
	return true
}
