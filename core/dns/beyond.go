// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

// Beyond is what a plan must know of names that are not the domain's own. What
// could not be found out is absent; a name that was asked and has nothing is
// there, without values.
type Beyond struct {
	// SPF holds the texts at the names to which the domain's SPF record and
	// the platform's refer, and at those to which they refer in turn: start
	// with SPFReferences of each and go on with what was found.
	SPF map[string][]string
	// Above holds the texts at DMARCAbove's names, for a domain that has no
	// DMARC record of its own.
	Above map[string][]string
	// Exchanges says which hosts of the domain's MX cannot take mail.
	Exchanges map[string]Exchange
	// Keys holds the texts at the targets of the DKIM records, for selectors
	// that have a text and no CNAME: a provider may have flattened it.
	Keys map[string][]string
}

// Exchange is how a host of an MX stands.
type Exchange string

// What makes an exchange useless. A host that is fine has no entry.
const (
	ExchangeAlias   Exchange = "alias"   // a CNAME, which RFC 2181 forbids there
	ExchangeNowhere Exchange = "nowhere" // no address
)

// maxWalk is how many names the tree walk of RFC 9989 asks at most.
const maxWalk = 8

// DMARCAbove lists the names above a domain whose DMARC record may cover it,
// nearest first, as the tree walk of RFC 9989 asks them.
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
