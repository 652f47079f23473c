// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// requestIDHeader carries the id of the API request that caused a call.
const requestIDHeader = "x-request-id"

type requestIDKey struct{}

// WithRequestID marks what ctx does as caused by the API request with this id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the API request that caused the call, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func sendRequestID(ctx context.Context) context.Context {
	if id := RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, requestIDHeader, clean(id))
	}
	return ctx
}

func receiveRequestID(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if ids := md.Get(requestIDHeader); len(ids) == 1 {
		return WithRequestID(ctx, clean(ids[0]))
	}
	return ctx
}
