// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/ports"
)

// Fence implements ports.Fence.
type Fence struct{}

var _ ports.Fence = Fence{}

// Mail implements ports.Fence.
func (Fence) Mail(p ports.MailPlatform, guard ports.WriteGuard) ports.MailPlatform {
	if client, ok := p.(mailClient); ok {
		return newMailClient(client.chain.withInterceptor(guardWrites(guard)))
	}
	return MailInProcess(p, guardWrites(guard))
}

// DNS implements ports.Fence.
func (Fence) DNS(p ports.DNSProvider, guard ports.WriteGuard) ports.DNSProvider {
	if client, ok := p.(dnsClient); ok {
		return newDNSClient(client.chain.withInterceptor(guardWrites(guard)))
	}
	return DNSInProcess(p, guardWrites(guard))
}

func guardWrites(guard ports.WriteGuard) Interceptor {
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		if c.ReadOnly {
			return next(ctx)
		}
		return guard(ctx, next)
	}
}
