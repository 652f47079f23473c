// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/core/fault"
)

// ceiling bounds how many requests the process works on at once, so that a
// flood is refused quickly instead of everybody waiting.
type ceiling struct {
	most int64
	now  atomic.Int64
}

func (c *ceiling) enter() bool {
	if c.now.Add(1) > c.most {
		c.now.Add(-1)
		return false
	}
	return true
}

func (c *ceiling) leave() { c.now.Add(-1) }

// crowd takes a place under the ceiling for each request.
func (g *guard) crowd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.ceiling.enter() {
			refuse(w, r, crowded())
			return
		}
		e := exchangeOf(r.Context())
		e.inside = true
		defer func() {
			if e.inside {
				g.ceiling.leave()
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// outside does something for which we wait for the caller alone: whoever is
// slow takes no place meanwhile. It reports whether there was one afterwards.
func (g *guard) outside(e *exchange, wait func()) bool {
	g.ceiling.leave()
	e.inside = false
	wait()
	e.inside = g.ceiling.enter()
	return e.inside
}

func crowded() error {
	return fault.ServiceUnavailable.RetryIn(time.Second, "more requests are under way than this server works on at once")
}
