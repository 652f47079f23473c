// SPDX-License-Identifier: Apache-2.0

// Package platform holds what tenantry must know about a mail platform that calls of its port do not
// say. The platform's plugin describes it once; see Facts.
package platform

import "github.com/tenantry/tenantry/core/dns"

// Facts describes a mail platform. The zero value is valid: a platform without names and hosts of
// its own.
type Facts struct {
	// BuiltinDomains are the suffixes of the domain names that the platform assigns to tenants. A
	// caller cannot add such a domain.
	BuiltinDomains []string
	Hosts          dns.PlatformHosts
	// ApplicationField is the name of the setting with the id of the operator's application, which
	// administrators see at the platform. It is empty if there is none.
	ApplicationField string
	// Administrator is the platform's name of the role that can give consent, as in "Global
	// Administrator".
	Administrator string
	// Withdrawal and LeftRules are sentences for administrators: how to withdraw the consent, and
	// where to find mail flow rules that tenantry left behind.
	Withdrawal, LeftRules string
}
