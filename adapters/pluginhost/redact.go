// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/secret"
)

const (
	// holdAfterCall is the minimum time for which the secrets of a call are redacted after the call
	// has ended. The last output of a plugin that crashes arrives after its calls have ended.
	holdAfterCall = 10 * time.Second
	// minSecretLength is the length in bytes from which a line of a secret is redacted. A shorter
	// line would match ordinary text.
	minSecretLength = 6
)

// redactor removes secrets from the output of plugins, during the calls that use them and for some
// time after. A plugin should not print secrets, but can print them in a panic. The zero value is
// ready to use.
type redactor struct {
	mu            sync.Mutex
	activeSecrets map[string]*activeSecret // by value
	sweptAt       time.Time                // when forgetExpired last deleted secrets
}

type activeSecret struct {
	calls       int       // calls in progress that use the secret
	redactUntil time.Time // the earliest end of the redaction, valid when calls is 0
}

// holdSecrets makes redact remove these secrets until release is called, and for at least
// holdAfterCall after that.
func (r *redactor) holdSecrets(secrets []secret.Text) (release func()) {
	var values []string
	for _, s := range secrets {
		// Output arrives line by line, so each line of a secret is redacted separately.
		for line := range strings.SplitSeq(s.Reveal(), "\n") {
			if line = strings.TrimSpace(line); len(line) >= minSecretLength {
				values = append(values, line)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetExpired(time.Now())
	for _, v := range values {
		if r.activeSecrets[v] == nil {
			r.activeSecrets[v] = &activeSecret{}
		}
		r.activeSecrets[v].calls++
	}
	return func() { r.release(values) }
}

func (r *redactor) release(values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		r.activeSecrets[v].calls--
		r.activeSecrets[v].redactUntil = time.Now().Add(holdAfterCall)
	}
}

// forgetExpired deletes the secrets that need no redaction any more, at most once per
// holdAfterCall. The caller holds r.mu.
func (r *redactor) forgetExpired(now time.Time) {
	if r.activeSecrets == nil {
		r.activeSecrets = map[string]*activeSecret{}
	}
	if now.Sub(r.sweptAt) < holdAfterCall {
		return
	}
	r.sweptAt = now
	for v, active := range r.activeSecrets {
		if active.calls == 0 && active.redactUntil.Before(now) {
			delete(r.activeSecrets, v)
		}
	}
}

// redact returns text with each active secret replaced by `[redacted]`. It replaces longer secrets
// first, because a longer secret may contain a shorter secret.
func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	longestFirst := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
	for _, v := range slices.SortedFunc(maps.Keys(r.activeSecrets), longestFirst) {
		text = strings.ReplaceAll(text, v, "[redacted]")
	}
	return text
}
