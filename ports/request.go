// SPDX-License-Identifier: Apache-2.0

package ports

import "context"

type requestKey struct{}

// WithRequestID marks all that is done in ctx as part of one request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
