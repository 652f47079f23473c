// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
)

// DNSReader reads what the world sees of a domain's mail records.
type DNSReader interface {
	// Read asks every authoritative server of the domain's zone. Trouble
	// with servers is part of the answer (Complete, Reason, Warnings); the
	// error is only for a context that ended before anything could be said.
	// What must be known of other names to decide on the wanted records is
	// in Beyond; without any it is empty. An answer is noted in the context's
	// Effects.
	Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.Sight, error)
}
