// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/dns"
)

const (
	// patientWith is how many reads in a row may bring no answer before the
	// resolver is suspected, and not the domains.
	patientWith = 5
	// restFor is how long nothing is read once it is.
	restFor = 10 * time.Minute
)

// rest keeps a Watch from reading while the resolver, or our network, brings no
// answers: that would cost every domain its turn of the day.
type rest struct {
	mu      sync.Mutex
	silent  int    // reads in a row without an answer
	witness string // a domain that answered
	end     time.Time
}

// until reports whether it is still time to rest.
func (r *rest) until(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.end)
}

// count takes note of a read, and reports whether the resolver is suspected, with
// a domain that can clear it of that.
func (r *rest) count(s dns.Sight) (suspect bool, witness string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.Silent() {
		r.silent, r.witness = 0, s.Domain
		return false, ""
	}
	r.silent++
	return r.silent >= patientWith, r.witness
}

// begin rests from now on. Afterwards one read without an answer is enough.
func (r *rest) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent, r.end = patientWith-1, now.Add(restFor)
}

// hear suspects the resolver when read after read brings no answer. Many domains
// of one customer may lie with servers that are dead: then a domain that has
// answered before still does.
func (w *Watch) hear(ctx context.Context, s dns.Sight) {
	suspect, witness := w.rest.count(s)
	if !suspect {
		return
	}
	if witness != "" {
		if again, err := settling.Sight(ctx, w.DNS, witness); err == nil && !again.Silent() {
			w.rest.count(again)
			return
		}
	}
	w.rest.begin(w.Now())
	w.Log.WarnContext(ctx, "no name server answers: domains are not read again for a while", "for", restFor.String())
}
