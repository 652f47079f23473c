// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// run is one attempt to execute a write. The attempt has claimed the Idempotency-Key of the write.
type run struct {
	*keyedWrite

	guard   *guard
	attempt string
	effects ports.Effects
}

// runOperation runs the operation and records its outcome before it sends the answer. A replay
// therefore has the same status and body as the first answer.
func (g *guard) runOperation(w http.ResponseWriter, r *http.Request, x *run, next http.Handler) {
	a := newAnswer(w.Header())
	hasEnded := false
	defer func() {
		if !hasEnded { // a panic, which recoverPanics handles
			x.leaveUnresolved(r.Context())
		}
	}()
	exchangeOf(r.Context()).run = x
	ctx, stopRenewal := x.keepLease(ports.WithEffects(r.Context(), &x.effects))
	func() {
		defer stopRenewal()
		next.ServeHTTP(a, r.WithContext(ctx))
	}()
	a.WriteHeader(http.StatusOK)
	hasEnded = true
	isHeld, err := x.recordOutcome(r.Context(), a)
	switch {
	case err != nil:
		Refuse(w, r, err)
	case !isHeld:
		g.answerAfterLostKey(w, r, x.keyedWrite)
	default:
		a.send(w)
	}
}

// recordOutcome stores the answer, marks the key's outcome as unknown, or releases the key.
// idempotency.DecideEnd makes this choice, but an answer larger than idempotency.MaxAnswer is never
// stored: its outcome is then unknown. If the answer was committed with the last change of the
// operation, recordOutcome does nothing.
//
// held is false if a different attempt has claimed the key. If recordOutcome returns an error, the
// answer may not be stored. The caller must then not send it, because a replay may be impossible.
func (x *run) recordOutcome(ctx context.Context, a *answer) (held bool, err error) {
	switch idempotency.DecideEnd(a.status, fault.IsFromStore(exchangeOf(ctx).cause), x.effects.Recorded()) {
	case idempotency.AnswerKept:
		return true, nil
	case idempotency.KeepAnswer:
		if a.body.Len() <= idempotency.MaxAnswer {
			return x.storeAnswer(ctx, a)
		}
		x.guard.log.ErrorContext(ctx, "an answer is too large to be stored", "bytes", a.body.Len())
		return x.leaveUnresolved(ctx), nil
	case idempotency.KeepKey:
		return x.leaveUnresolved(ctx), nil
	default:
		return x.releaseKey(ctx), nil
	}
}

func (x *run) storeAnswer(ctx context.Context, a *answer) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	storedAnswer, err := x.storedAnswer(ctx, a)
	if err != nil {
		return false, err
	}
	return x.guard.idempotency.Keys.Finish(ctx, *storedAnswer)
}

// leaveUnresolved marks the key's outcome as unknown. It returns false if a different attempt has
// claimed the key. If the store fails, it logs the error and returns true. The lease of the key
// then expires later.
func (x *run) leaveUnresolved(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	isHeld, err := x.guard.idempotency.Keys.Abandon(ctx, x.keyID, x.attempt, x.guard.idempotency.Now().Add(idempotency.Retention))
	return x.guard.keyStillHeld(ctx, isHeld, err)
}

// releaseKey releases the key, so that a new attempt can claim it. It returns the same result as
// leaveUnresolved.
func (x *run) releaseKey(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	isHeld, err := x.guard.idempotency.Keys.Release(ctx, x.keyID, x.attempt)
	return x.guard.keyStillHeld(ctx, isHeld, err)
}

// keyStillHeld returns held. If there is an error, it logs the error and returns true.
func (g *guard) keyStillHeld(ctx context.Context, held bool, err error) bool {
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "an Idempotency-Key stays leased, because the store failed", errorAttr(err))
		return true
	}
	return held
}

// answerAfterLostKey answers an attempt that lost its key while it executed. It sends the answer of
// the attempt that has claimed the key. If that answer is not stored yet, it answers 409.
func (g *guard) answerAfterLostKey(w http.ResponseWriter, r *http.Request, keyed *keyedWrite) {
	if g.checkRecord(w, r, keyed) {
		Refuse(w, r, keyInProgressError())
	}
}

// storedAnswer is an answer in the form in which it is stored for replays. Its fields are encrypted
// together, so that no field can be changed alone.
type storedAnswer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
}

func (o *Idempotency) seal(id idempotency.KeyID, a *answer) ([]byte, error) {
	encoded, err := json.Marshal(storedAnswer{a.status, a.header.Get("Content-Type"), a.body.Bytes()})
	if err != nil {
		return nil, err
	}
	return o.Sealer.Seal(secret.New(string(encoded)), id.String())
}

func (o *Idempotency) open(id idempotency.KeyID, sealedAnswer []byte) (storedAnswer, error) {
	var s storedAnswer
	decrypted, err := o.Sealer.Open(sealedAnswer, id.String())
	if err == nil {
		err = json.Unmarshal([]byte(decrypted.Reveal()), &s)
	}
	if err != nil {
		return s, fmt.Errorf("the stored answer cannot be opened: %w", err)
	}
	return s, nil
}

// sendStored sends the stored answer again. If the answer cannot be decrypted, sendStored logs an
// error and answers 500. It does not execute the operation again.
func (g *guard) sendStored(w http.ResponseWriter, r *http.Request, keyed *keyedWrite) {
	s, err := g.idempotency.open(keyed.keyID, keyed.record.Answer)
	if err != nil {
		g.log.LogAttrs(r.Context(), slog.LevelError, "a stored answer cannot be opened: it was changed or moved, or its key is gone")
		Refuse(w, r, fmt.Errorf("%w: %w", fault.InternalError, err))
		return
	}
	exchangeOf(r.Context()).wasReplayed = true
	w.Header().Set("Content-Type", s.ContentType)
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(s.Status)
	_, _ = w.Write(s.Body) // writes to memory, cannot fail
}

// keepLease renews the lease of the run in the background until the returned function is called. If
// the lease is lost, keepLease cancels the returned context, and no further provider call starts. A
// renewal does not count as an effect of the run.
func (x *run) keepLease(ctx context.Context) (context.Context, func()) {
	keyOptions := x.guard.idempotency
	keyLease := lease.New(x.claimBegan, keyOptions.Lease, func(ctx context.Context, duration time.Duration) (bool, error) {
		return keyOptions.Keys.RenewKeyLease(ports.WithEffects(ctx, &ports.Effects{}), x.keyID, x.attempt, duration)
	})
	return keyLease.RenewInBackground(ctx, func(err error) {
		x.effects.Stop()
		x.guard.log.LogAttrs(ctx, slog.LevelError, "the lease of an Idempotency-Key was lost", errorAttr(err))
	})
}

// StoredAnswer returns the encrypted answer of a successful write. A store commits the StoredAnswer
// together with a change. If the process dies after the commit, the answer can still be replayed.
// The stored answer has the same bytes as the answer that the API sends. For an answer larger than
// idempotency.MaxAnswer, StoredAnswer returns nil.
func StoredAnswer(ctx context.Context, api huma.API, op *huma.Operation, body any) (*ports.StoredAnswer, error) {
	a := newAnswer(http.Header{"Content-Type": {"application/json"}})
	a.WriteHeader(SuccessStatus(op))
	if err := api.Marshal(a, "application/json", body); err != nil || a.body.Len() > idempotency.MaxAnswer {
		return nil, err
	}
	return exchangeOf(ctx).run.storedAnswer(ctx, a)
}

// storedAnswer returns an answer in its encrypted form, and the outcome for its audit entry.
func (x *run) storedAnswer(ctx context.Context, a *answer) (*ports.StoredAnswer, error) {
	e := exchangeOf(ctx)
	e.route.rules.setCreatedSubject(e.act, a)
	sealedAnswer, err := x.guard.idempotency.seal(x.keyID, a)
	if err != nil {
		return nil, err
	}
	return &ports.StoredAnswer{
		Key: x.keyID, Attempt: x.attempt, Answer: sealedAnswer, Until: x.guard.idempotency.Now().Add(idempotency.Retention),
		Outcome: e.outcomeOf(a, false),
	}, nil
}
