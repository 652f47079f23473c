// SPDX-License-Identifier: Apache-2.0

package ports

import "context"

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
