// SPDX-License-Identifier: Apache-2.0

package guard

import "context"

type clientWaitKey struct{}

// WithClientWait returns a context for the requests of a connection. The middleware calls set with
// true when a request begins to wait for its client. It calls set with false when the body has
// arrived or cannot be read. A request waits for its client while its body arrives, and from the
// time when its answer is complete.
func WithClientWait(ctx context.Context, set func(waiting bool)) context.Context {
	return context.WithValue(ctx, clientWaitKey{}, set)
}

// setClientWait calls the function of WithClientWait, if there is one.
func setClientWait(ctx context.Context, waiting bool) {
	if set, ok := ctx.Value(clientWaitKey{}).(func(bool)); ok {
		set(waiting)
	}
}
