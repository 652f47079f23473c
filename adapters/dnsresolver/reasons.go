// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import "github.com/tenantry/tenantry/core/dns"

// Why a read cannot be relied on, as stable words.
const (
	reasonZoneCut      = "zone_cut_unknown"
	reasonNotDelegated = dns.ReasonNotDelegated
	reasonNoAnswer     = "no_authoritative_answer"
	reasonSingle       = "single_server_answered"
	reasonDisagree     = "servers_disagree"
	reasonTypeUnknown  = "type_unknown"
	reasonBogus        = "dnssec_bogus"
	reasonDeadline     = "read_deadline"
)

// What is wrong with a zone's DNS though it can be read, as stable words.
const (
	warnLame        = "lame_delegation"
	warnUnreachable = "server_unreachable"
	warnMismatch    = "delegation_mismatch"
	warnTCP         = "tcp_blocked"
	warnForbidden   = "ns_address_forbidden"
	warnWildcard    = "wildcard_ambiguous"
	warnMulti       = "multi_provider"
)
