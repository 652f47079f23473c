// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/tenantry/tenantry/ports"
)

// requestIDHeader carries the id of the API request that caused a call.
const requestIDHeader = "x-request-id"

func sendRequestID(ctx context.Context) context.Context {
	if id := ports.RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, requestIDHeader, clean(id))
	}
	return ctx
}

func receiveRequestID(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if ids := md.Get(requestIDHeader); len(ids) == 1 {
		return ports.WithRequestID(ctx, clean(ids[0]))
	}
	return ctx
}
