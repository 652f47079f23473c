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

// Token is one that the simulator always takes. Each customer of a sandbox has
// one of its own besides, which reaches the same zones.
const Token = "simulated-cloudflare-token"

// giveToken makes the token of a customer, the same one each time.
func (c *cloudflare) giveToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Customer string `json:"customer"`
	}
	if err := simulate.Read(r, &in); err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if in.Customer == "" || strings.ContainsAny(in.Customer, " \r\n\x00") {
		simulate.Refuse(w, http.StatusBadRequest, "customer is a word")
		return
	}
	token := Token + "-" + in.Customer
	err := c.file.Do(func(s *state) {
		if s.Tokens == nil {
			s.Tokens = map[string]bool{}
		}
		s.Tokens[token] = true
	})
	if err != nil {
		c.done(w, err)
		return
	}
	simulate.Reply(w, http.StatusOK, map[string]any{"secrets": map[string]string{"api_token": token}})
}

// token is the one that a request shows, "" when nobody was given it.
func (c *cloudflare) token(r *http.Request) string {
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := shown == Token
	c.file.View(func(s *state) { known = known || s.Tokens[shown] })
	if !known {
		return ""
	}
	return shown
}

func (c *cloudflare) tokenStatus() string {
	status := ""
	c.file.View(func(s *state) { status = s.Token })
	return cmp.Or(status, "active")
}

// A token may make so many calls in a window.
const (
	limit  = 1200
	window = 5 * time.Minute
)

// allowances are those of all tokens.
type allowances struct {
	mu  sync.Mutex
	all map[string]*allowance
}

type allowance struct {
	calls []time.Time
	until time.Time // blocked
}

// count counts a call. One over the limit blocks all calls of its token for the
// whole window.
func (a *allowances) count(token string, now time.Time) (left int, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[token] == nil {
		a.all[token] = &allowance{}
	}
	of := a.all[token]
	for len(of.calls) > 0 && now.Sub(of.calls[0]) >= window {
		of.calls = of.calls[1:]
	}
	if len(of.calls) >= limit && !of.until.After(now) {
		of.until = now.Add(window)
	}
	if of.until.After(now) {
		return 0, of.until.Sub(now)
	}
	of.calls = append(of.calls, now)
	return limit - len(of.calls), 0
}
