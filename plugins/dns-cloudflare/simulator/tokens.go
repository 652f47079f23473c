// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Token is the token that exists in every simulator. createToken creates one more token for each
// customer. All tokens have access to the same zones.
const Token = "simulated-cloudflare-token"

// createToken answers with the token of a customer, which is the same in each call.
func (sim *simulator) createToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Customer string `json:"customer"`
	}
	if err := simulate.ReadBody(r, &in); err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	if in.Customer == "" || strings.ContainsAny(in.Customer, " \r\n\x00") {
		simulate.WriteError(w, http.StatusBadRequest, "customer must be a word without spaces")
		return
	}
	token := Token + "-" + in.Customer
	err := sim.file.Do(func(s *state) {
		if s.Tokens == nil {
			s.Tokens = map[string]bool{}
		}
		s.Tokens[token] = true
	})
	if err != nil {
		sim.answerControlCall(w, err)
		return
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"secrets": map[string]string{"api_token": token}})
}

// token returns the token of a request, or an empty string if the token is unknown.
func (sim *simulator) token(r *http.Request) string {
	fromHeader, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := fromHeader == Token
	sim.file.View(func(s *state) { known = known || s.Tokens[fromHeader] })
	if !known {
		return ""
	}
	return fromHeader
}

func (sim *simulator) tokenStatus() string {
	status := ""
	sim.file.View(func(s *state) { status = s.TokenStatus })
	return cmp.Or(status, "active")
}

// A token may make at most maxCalls calls in each rateWindow. All unknown tokens share one limit.
const (
	maxCalls   = 1200
	rateWindow = 5 * time.Minute
)

type rateLimits struct {
	mu      sync.Mutex
	byToken map[string]*rateLimit
}

type rateLimit struct {
	calls        []time.Time
	blockedUntil time.Time
}

// count records a call at the time now, unless the token is blocked. A call that exceeds maxCalls
// blocks its token for one rateWindow. wait is the remaining time of the block, or 0. remaining is
// how many more calls are allowed now.
func (l *rateLimits) count(token string, now time.Time) (remaining int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byToken[token] == nil {
		l.byToken[token] = &rateLimit{}
	}
	current := l.byToken[token]
	for len(current.calls) > 0 && now.Sub(current.calls[0]) >= rateWindow {
		current.calls = current.calls[1:]
	}
	if len(current.calls) >= maxCalls && !current.blockedUntil.After(now) {
		current.blockedUntil = now.Add(rateWindow)
	}
	if current.blockedUntil.After(now) {
		return 0, current.blockedUntil.Sub(now)
	}
	current.calls = append(current.calls, now)
	return maxCalls - len(current.calls), 0
}
