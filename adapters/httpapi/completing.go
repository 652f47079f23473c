// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

// completing has the answer to a result, shaped by shape, committed together
// with the change that makes it true. It is for writes that find something
// else when they run a second time: what was deleted is not there, what was
// made exists. A process that dies after the change has answered then.
func completing[R, O any](ctx context.Context, shape func(R) O) context.Context {
	x, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return ctx
	}
	return ports.WithCompletion(ctx, func(result R) (ports.Completion, error) {
		return x.completion(success(exchangeOf(ctx).route.op), shape(result))
	})
}

// completion is the end of the run with a success. The answer has the bytes
// that huma is about to write; one that is too large is not remembered.
func (x *run) completion(status int, out any) (c ports.Completion, err error) {
	a := newAnswer(http.Header{"Content-Type": {"application/json"}})
	a.WriteHeader(status)
	if err = huma.DefaultJSONFormat.Marshal(a, out); err != nil || a.body.Len() > idempotency.MaxAnswer {
		return c, err
	}
	c = ports.Completion{Place: x.at, Attempt: x.attempt, Until: x.guard.once.Now().Add(idempotency.Kept)}
	c.Answer, err = x.guard.once.seal(x.at, a)
	return c, err
}
