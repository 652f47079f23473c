// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/idempotency"
)

// Completion is the result of an idempotent write: its sealed answer. Stores commit it in the
// transaction of the change that the answer describes. If a different attempt holds the key by
// then, they commit neither.
type Completion struct {
	Key     idempotency.KeyID
	Attempt string
	Answer  []byte
	Until   time.Time
}

type (
	resultKey[R any] struct{}
	completionKey    struct{}
)

// WithCompletion sets the function that returns the Completion for a result of type R. If it
// returns no answer, nothing is stored.
func WithCompletion[R any](ctx context.Context, completion func(R) (Completion, error)) context.Context {
	return context.WithValue(ctx, resultKey[R]{}, completion)
}

// Complete returns the context for the one change that makes r true. Use it only for the last
// change of a use case whose repetition would return a different result, and for nothing else.
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

// CompletionOf returns the Completion that a store commits together with a change in ctx.
func CompletionOf(ctx context.Context) (c Completion, found bool) {
	c, found = ctx.Value(completionKey{}).(Completion)
	return c, found
}
