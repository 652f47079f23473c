// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// run is one attempt at a write.
type run struct {
	*write

	guard   *guard
	attempt string
	effects ports.Effects
}

type runKey struct{}

// work runs the operation and settles the key before anything is sent: what a
// caller was told is what a replay says.
func (g *guard) work(w http.ResponseWriter, r *http.Request, x *run, next http.Handler) {
	a := newAnswer(w.Header())
	ended := false
	defer func() {
		if !ended { // a panic, on its way to rescue
			x.leave(r.Context())
		}
	}()
	ctx, done := x.hold(ports.WithEffects(context.WithValue(r.Context(), runKey{}, x), &x.effects))
	func() {
		defer done()
		next.ServeHTTP(a, r.WithContext(ctx))
	}()
	a.WriteHeader(http.StatusOK)
	ended = true
	failpoint.Hit("idempotency.before-finish")
	held, err := x.settle(r.Context(), a)
	failpoint.Hit("idempotency.after-finish")
	switch {
	case err != nil:
		refuse(w, r, err)
	case !held:
		g.outrun(w, r, x.write)
	default:
		a.send(w)
	}
}

// settle does with the key what the answer asks for. An error means that the
// answer cannot be given, as nobody would hear it a second time.
func (x *run) settle(ctx context.Context, a *answer) (held bool, err error) {
	switch idempotency.End(a.status, x.effects.Seen()) {
	case idempotency.Keep:
		if a.body.Len() <= idempotency.MaxAnswer {
			return x.keep(ctx, a)
		}
		x.guard.log.ErrorContext(ctx, "an answer is too large to be remembered", "bytes", a.body.Len())
		return x.leave(ctx), nil
	case idempotency.Leave:
		return x.leave(ctx), nil
	default:
		return x.release(ctx), nil
	}
}

func (x *run) keep(ctx context.Context, a *answer) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	sealed, err := x.guard.once.seal(x.at, a)
	if err != nil {
		return false, err
	}
	return x.guard.once.Keys.Finish(ctx, x.at, x.attempt, sealed, x.guard.once.Now().Add(idempotency.Kept))
}

// leave and release may fail: the lease ends then by itself, and the caller's
// answer says nothing that would be untrue later.
func (x *run) leave(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	held, err := x.guard.once.Keys.Leave(ctx, x.at, x.attempt, x.guard.once.Now().Add(idempotency.Kept))
	return x.guard.kept(ctx, held, err)
}

func (x *run) release(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	held, err := x.guard.once.Keys.Release(ctx, x.at, x.attempt)
	return x.guard.kept(ctx, held, err)
}

func (g *guard) kept(ctx context.Context, held bool, err error) bool {
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "an Idempotency-Key stays leased", because(err))
		return true
	}
	return held
}

// outrun answers for an attempt that lost its key while it ran: the answer is
// the one of whoever has it.
func (g *guard) outrun(w http.ResponseWriter, r *http.Request, given *write) {
	if g.lookUp(w, r, given) {
		refuse(w, r, busy())
	}
}

// stored is an answer as it is remembered: what a replay needs, as one sealed
// piece, so that no part of it can be changed alone.
type stored struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
}

func (o *Idempotency) seal(at idempotency.Place, a *answer) ([]byte, error) {
	plain, err := json.Marshal(stored{a.status, a.header.Get("Content-Type"), a.body.Bytes()})
	if err != nil {
		return nil, err
	}
	return o.Sealer.Seal(secret.New(string(plain)), at.String())
}

func (o *Idempotency) open(at idempotency.Place, sealed []byte) (stored, error) {
	var s stored
	plain, err := o.Sealer.Open(sealed, at.String())
	if err == nil {
		err = json.Unmarshal([]byte(plain.Reveal()), &s)
	}
	if err != nil {
		return s, fmt.Errorf("a remembered answer does not open: %w", err)
	}
	return s, nil
}

// replay gives the remembered answer again. One that does not open is an
// alarm: the operation does not run a second time.
func (g *guard) replay(w http.ResponseWriter, r *http.Request, given *write) {
	s, err := g.once.open(given.at, given.seen.Answer)
	if err != nil {
		g.log.LogAttrs(r.Context(), slog.LevelError, "a remembered answer was changed, moved, or its key is gone")
		refuse(w, r, fmt.Errorf("%w: %w", fault.InternalError, err))
		return
	}
	exchangeOf(r.Context()).replayed = true
	w.Header().Set("Content-Type", s.ContentType)
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(s.Status)
	_, _ = w.Write(s.Body) // into memory
}
