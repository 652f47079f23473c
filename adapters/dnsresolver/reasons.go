// SPDX-License-Identifier: Apache-2.0

package dnsresolver

// Why a read is not complete, as stable words.
const (
	reasonZoneCut      = "zone_cut_unknown"
	reasonNotDelegated = "not_delegated"
	reasonNoAnswer     = "no_authoritative_answer"
	reasonTypeUnknown  = "type_unknown"
	reasonTCPBlocked   = "tcp_blocked"
	reasonForbidden    = "ns_address_forbidden"
	reasonDeadline     = "read_deadline"
)
