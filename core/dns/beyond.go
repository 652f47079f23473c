// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

// Beyond holds what a plan must know about names outside the domain. A name whose lookup failed is
// absent from the maps. A name without records is present with no values.
type Beyond struct {
	// SPF holds the TXT values of all names that the SPF records of the domain and the platform
	// reference, directly or indirectly. SPFReferences returns the names that a record references.
	SPF map[string][]string
	// Above holds the TXT values of the names of DMARCAbove, for a domain without a DMARC record of
	// its own.
	Above map[string][]string
	// Exchanges holds the problem of each host in the domain's MX that cannot receive mail.
	Exchanges map[string]Exchange
	// Keys holds the TXT values of the DKIM targets, for selectors that have a TXT record and no
	// CNAME. Some providers replace a CNAME by its target's records.
	Keys map[string][]string
}

// Exchange is the problem of a host in an MX record.
type Exchange string

// The problems of an MX host. A usable host has no entry.
const (
	ExchangeAlias   Exchange = "alias"   // a CNAME, which RFC 2181 forbids there
	ExchangeNowhere Exchange = "nowhere" // no address
)

// maxWalk is the maximum number of names in the tree walk of RFC 9989.
const maxWalk = 8

// DMARCAbove returns the names above a domain whose DMARC record may cover it, nearest first, in
// the order of the tree walk of RFC 9989.
func DMARCAbove(domain string) []string {
	labels := strings.Split(strings.TrimSuffix(strings.ToLower(domain), "."), ".")
	if len(labels) > maxWalk {
		labels = labels[len(labels)-maxWalk+1:]
	} else {
		labels = labels[1:]
	}
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = "_dmarc." + strings.Join(labels[i:], ".")
	}
	return names
}
