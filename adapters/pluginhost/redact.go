// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/secret"
)

const (
	// linger is how long after a call its secrets are still looked for: the
	// last words of a dying plugin arrive later than the end of its calls.
	linger = 10 * time.Second
	// shortest is the length under which a secret is not looked for, since
	// it would hit ordinary text.
	shortest = 6
)

// redactor takes the secrets of the calls under way out of what a plugin
// prints. A plugin has no business printing them, but its panic may.
type redactor struct {
	mu    sync.Mutex
	held  map[string]*holding
	swept time.Time
}

type holding struct {
	calls int
	until time.Time // once calls is 0
}

// hold looks for these secrets until a while after release is called.
func (r *redactor) hold(secrets []secret.Text) (release func()) {
	var values []string
	for _, s := range secrets {
		// What is printed comes in lines, so each line counts by itself.
		for line := range strings.SplitSeq(s.Reveal(), "\n") {
			if line = strings.TrimSpace(line); len(line) >= shortest {
				values = append(values, line)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(time.Now())
	for _, v := range values {
		if r.held[v] == nil {
			r.held[v] = &holding{}
		}
		r.held[v].calls++
	}
	return func() { r.release(values) }
}

func (r *redactor) release(values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		r.held[v].calls--
		r.held[v].until = time.Now().Add(linger)
	}
}

func (r *redactor) sweep(now time.Time) {
	if r.held == nil {
		r.held = map[string]*holding{}
	}
	if now.Sub(r.swept) < linger {
		return
	}
	r.swept = now
	for v, h := range r.held {
		if h.calls == 0 && h.until.Before(now) {
			delete(r.held, v)
		}
	}
}

func (r *redactor) clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.held {
		text = strings.ReplaceAll(text, v, "[redacted]")
	}
	return text
}
