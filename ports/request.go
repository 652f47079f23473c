// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"sync"

	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/tenant"
)

// A context can carry four values of a request from one adapter to another: the request id, the
// Effects, the Act, and the tenants to which the key is limited. Use cases read none of them. See
// docs/decisions/0018-answers-are-parameters.md, docs/decisions/0030-keys-with-bounds.md and
// docs/decisions/0036-audit-chains.md.

type requestKey struct{}

// WithRequestID returns a context that belongs to the request with this id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id of the request to which ctx belongs, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

type tenantsKey struct{}

// WithTenants returns a context in which stores show only these tenants of the owner. Lists omit
// the objects of other tenants, and a lookup by the object's own id does not find them. Methods
// that take the id of a tenant do not check this id, because package httpapi/guard does so.
func WithTenants(ctx context.Context, tenants []tenant.GUID) context.Context {
	return context.WithValue(ctx, tenantsKey{}, tenants)
}

// VisibleTenants returns the tenants of WithTenants. limited is false if all tenants are visible in
// ctx.
func VisibleTenants(ctx context.Context) (tenants []tenant.GUID, limited bool) {
	tenants, limited = ctx.Value(tenantsKey{}).([]tenant.GUID)
	return tenants, limited
}

// Effects collects the effects of a request. Adapters record the effects: providers' adapters
// record calls and answers, and stores record changes and stored answers. If the context has no
// Effects, nothing is recorded.
type Effects struct {
	mu       sync.Mutex
	recorded idempotency.Effects
	stopped  bool
}

type effectsKey struct{}

// WithEffects returns a context in which effects are recorded in e.
func WithEffects(ctx context.Context, e *Effects) context.Context {
	return context.WithValue(ctx, effectsKey{}, e)
}

// Recorded returns the effects so far.
func (e *Effects) Recorded() idempotency.Effects {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.recorded
}

// Stop makes the providers' adapters refuse further calls of the request. Unlike a cancellation of
// the context, Stop also affects work that was detached from the context.
func (e *Effects) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}

// Stopped reports whether the providers' adapters must refuse calls with ctx.
func Stopped(ctx context.Context) bool {
	e, ok := ctx.Value(effectsKey{}).(*Effects)
	if !ok {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

// RecordCall records that a provider was called, whatever the outcome.
func RecordCall(ctx context.Context) {
	record(ctx, func(e *idempotency.Effects) { e.ProviderCalled = true })
}

// RecordAnswer records that a provider answered or that the live DNS was read.
func RecordAnswer(ctx context.Context) {
	record(ctx, func(e *idempotency.Effects) { e.ProviderCalled, e.Answered = true, true })
}

// RecordChange records that something was stored, or may have been stored.
func RecordChange(ctx context.Context) {
	record(ctx, func(e *idempotency.Effects) { e.Changed = true })
}

// RecordStoredAnswer records that a StoredAnswer was committed.
func RecordStoredAnswer(ctx context.Context) {
	record(ctx, func(e *idempotency.Effects) { e.Completed = true })
}

func record(ctx context.Context, change func(*idempotency.Effects)) {
	if e, ok := ctx.Value(effectsKey{}).(*Effects); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		change(&e.recorded)
	}
}
