// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"sync"

	"github.com/tenantry/tenantry/core/idempotency"
)

// Effects collects what is done in a context. The adapters that do it note it
// here: a provider port that it calls out and is answered, a store that it
// changed something. Noting in a context without Effects does nothing.
type Effects struct {
	mu      sync.Mutex
	seen    idempotency.Effects
	stopped bool
}

type effectsKey struct{}

// WithEffects makes e collect what is done in the context.
func WithEffects(ctx context.Context, e *Effects) context.Context {
	return context.WithValue(ctx, effectsKey{}, e)
}

// Seen is what was done so far.
func (e *Effects) Seen() idempotency.Effects {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen
}

// Stop has provider ports refuse further calls in the context. Unlike its
// cancellation this reaches work that was detached from it.
func (e *Effects) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}

// Stopped reports whether nothing more may be asked of providers in ctx.
func Stopped(ctx context.Context) bool {
	e, ok := ctx.Value(effectsKey{}).(*Effects)
	if !ok {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

// NoteAsked says that a provider was called, whatever came of it.
func NoteAsked(ctx context.Context) {
	note(ctx, func(e *idempotency.Effects) { e.Asked = true })
}

// NoteAnswered says that a provider answered or the live DNS was read.
func NoteAnswered(ctx context.Context) {
	note(ctx, func(e *idempotency.Effects) { e.Asked, e.Answered = true, true })
}

// NoteChanged says that something was stored, or may have been.
func NoteChanged(ctx context.Context) {
	note(ctx, func(e *idempotency.Effects) { e.Changed = true })
}

func note(ctx context.Context, what func(*idempotency.Effects)) {
	if e, ok := ctx.Value(effectsKey{}).(*Effects); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		what(&e.seen)
	}
}
