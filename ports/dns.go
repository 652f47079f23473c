// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
)

// DNSReader reads the published mail records of a domain.
type DNSReader interface {
	// Read queries every authoritative server of the domain's zone. It reports problems of the
	// servers in the ZoneRead (Complete, Reason, Warnings). It fails only if ctx ends before there
	// is any result. ZoneRead.Referenced holds the other names that are needed to plan the wanted
	// records. Read marks the context's Effects as answered when a server answers.
	Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.ZoneRead, error)
}
