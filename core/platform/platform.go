// SPDX-License-Identifier: Apache-2.0

// Package platform defines Facts: the constant properties of a mail platform, which the platform's
// plugin describes.
package platform

import "github.com/tenantry/tenantry/core/dns"

// Facts describes a mail platform. The zero value describes a platform that assigns no domain names
// and has no known hosts.
type Facts struct {
	// BuiltinDomains are the suffixes of the domain names that the platform assigns to tenants. A
	// caller cannot add such a domain.
	BuiltinDomains []string
	Hosts          dns.PlatformHosts
	// ApplicationField is the name of the setting that contains the id of the operator's
	// application. Administrators see this id at the platform. ApplicationField is empty for a
	// platform without such an id.
	ApplicationField string
	// Administrator is the platform's name of the role that can grant consent, as in "Global
	// Administrator".
	Administrator string
	// Withdrawal is a sentence that tells administrators how to withdraw the consent. LeftRules is
	// a sentence that tells administrators where to find the mail flow rules that remain after the
	// withdrawal.
	Withdrawal, LeftRules string
}
