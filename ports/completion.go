// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/idempotency"
)

// Completion is the end of an attempt at a write: its sealed answer. Stores
// commit it together with the change that the answer tells of, and neither
// when another attempt has the key by now.
type Completion struct {
	Place   idempotency.Place
	Attempt string
	Answer  []byte
	Until   time.Time
}

type (
	resultKey[R any] struct{}
	completionKey    struct{}
)

// WithCompletion has completion say what is stored when the result of a use
// case, an R, is about to become true. Without an answer nothing is.
func WithCompletion[R any](ctx context.Context, completion func(R) (Completion, error)) context.Context {
	return context.WithValue(ctx, resultKey[R]{}, completion)
}

// Complete returns the context for the one change that makes r true: the last
// one of a use case whose second run would tell something else. Nothing but
// this change is made in it.
func Complete[R any](ctx context.Context, r R) (context.Context, error) {
	completion, ok := ctx.Value(resultKey[R]{}).(func(R) (Completion, error))
	if !ok {
		return ctx, nil
	}
	c, err := completion(r)
	if err != nil || c.Answer == nil {
		return ctx, err
	}
	return context.WithValue(ctx, completionKey{}, c), nil
}

// CompletionOf is what a store commits together with a change in ctx.
func CompletionOf(ctx context.Context) (c Completion, found bool) {
	c, found = ctx.Value(completionKey{}).(Completion)
	return c, found
}
