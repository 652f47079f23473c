// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

const (
	// maxWait caps what a provider may ask us to wait.
	maxWait = 5 * time.Minute
	// reserve is what has to be left of the deadline after a wait, so that
	// the call that follows has a chance.
	reserve = time.Second
)

// Patience is how often a call is tried and how long the first pause is.
type Patience struct {
	Tries int
	Base  time.Duration
}

// Usual waits about one and then two seconds. The port's deadline of 20 s has
// no room for the five tries that Microsoft's pages allow.
var Usual = Patience{Tries: 3, Base: time.Second}

// Retry makes attempts until one brings an answer, its error is final for this
// effect, or the caller's deadline leaves no room for another.
func Retry[T any](ctx context.Context, p Patience, effect Effect, attempt func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		v, err := attempt()
		if err == nil || n+1 >= p.Tries || !mayRepeat(effect, err) || !p.Pause(ctx, n, err) {
			return v, err
		}
	}
}

// mayRepeat decides whether trying again is allowed. A throttled request was
// not carried out. One that met a provider out of service probably was not,
// which is enough for what may be repeated, but not for a creation.
func mayRepeat(effect Effect, err error) bool {
	var o *outcome.Error
	if !errors.As(err, &o) || isFinal(err) {
		return false
	}
	switch o.Kind {
	case outcome.Throttled:
		return true
	case outcome.Down:
		return effect != Create || o.Cause == CauseUnreachable
	case outcome.Broken, outcome.Unknown:
		var t temporary
		return effect == Read && errors.As(err, &t)
	default:
		return false
	}
}

// Pause waits before the try after the n-th (from 0), as long as the provider
// asks in err or else longer each time. It returns false, at once, when the
// deadline leaves no room.
func (p Patience) Pause(ctx context.Context, n int, err error) bool {
	var o *outcome.Error
	wait := time.Duration(0)
	if errors.As(err, &o) {
		wait = o.RetryAfter
	}
	if wait <= 0 {
		wait = p.Base << n
		wait = wait/2 + rand.N(wait/2+1)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait+reserve {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// temporary marks an error after which a read may be tried again although its
// kind alone does not say so.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// final marks an error that trying again cannot mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final marks err as one that no retry mends.
func Final(err error) error { return final{err} }

func isFinal(err error) bool {
	var f final
	return errors.As(err, &f)
}

// RetryAfter reads the header: seconds or a date. It is 0 without one.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		// Far larger numbers than the cap would overflow the product.
		wait = time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxWait))
}
