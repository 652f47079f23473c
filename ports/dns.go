// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
)

// DNSReader reads the published mail records of a domain.
type DNSReader interface {
	// Read queries the authoritative servers of the domain's zone. It reports problems of the
	// servers in the ZoneRead (Complete, Reason, Warnings). It fails only if ctx ends before the
	// read is done. The plan of the wanted records may need further names. Read also reads these
	// names, and stores the results in ZoneRead.Referenced. If Read does not fail, it records an
	// answer in the context's Effects. owner is the account for which the domain is read, empty for
	// the service itself. The reads of an account use its fair share of the concurrent DNS queries,
	// so that they do not delay the reads of other accounts.
	Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error)
}
