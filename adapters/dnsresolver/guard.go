// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"net/netip"

	"github.com/tenantry/tenantry/core/egress"
)

// public reports whether a name server may have this address. NS hosts and
// their addresses are chosen by whoever owns the domain.
func public(a netip.Addr) bool { return egress.Public(a) }
