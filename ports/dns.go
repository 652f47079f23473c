// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
)

// DNSReader reads the published mail records of a domain.
type DNSReader interface {
	// Read queries every authoritative server of the domain's zone. It reports problems of the
	// servers in the ZoneRead (Complete, Reason, Warnings). It fails only if ctx ends before any
	// server has answered. The plan of the wanted records may need names outside the domain. Read
	// also reads these names, and stores the results in ZoneRead.Referenced. When a server answers,
	// Read records the answer in the context's Effects. owner is the account for which the domain
	// is read, empty for the service itself. The reads of an account use its fair share of the
	// concurrent DNS queries, so that they do not delay the reads of other accounts.
	Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error)
}
