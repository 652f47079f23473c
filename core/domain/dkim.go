// SPDX-License-Identifier: Apache-2.0

package domain

import "github.com/tenantry/tenantry/core/dns"

// The states of a domain's DKIM.
const (
	DKIMPending = "pending" // the records are not made or not published yet
	DKIMReady   = "ready"   // both are published: signing can be enabled
	DKIMEnabled = "enabled" // the platform signs
)

// DKIMStatus decides where a domain's DKIM stands, given what the world sees
// of its two selectors.
func (d Domain) DKIMStatus(selector1, selector2 dns.Selector) string {
	switch {
	case d.DKIM:
		return DKIMEnabled
	case d.Verified && selector1 == dns.SelectorPropagated && selector2 == dns.SelectorPropagated:
		return DKIMReady
	default:
		return DKIMPending
	}
}

// DKIMMessage says in a sentence what DKIM waits for.
func (d Domain) DKIMMessage(status string) string {
	switch {
	case status == DKIMEnabled:
		return "the mail platform signs this domain's mail"
	case status == DKIMReady:
		return "both CNAME records are published; enable DKIM now"
	case !d.Verified:
		return "verify the domain first; the mail platform makes the DKIM records after that"
	case d.Signing.Selector1.Name == "":
		return "the mail platform has not made the DKIM records yet"
	default:
		return "publish both DKIM CNAME records and wait until they are visible"
	}
}
