// SPDX-License-Identifier: Apache-2.0

package simulator

import "github.com/tenantry/tenantry/plugins/sdk/simulate"

// documentationAddr is an address for documentation (RFC 5737), which no host has. The hosts of the
// platform resolve to it, because the simulator receives no mail.
const documentationAddr = "192.0.2.25"

// ownZones returns the platform's own zones, to which the records of customers refer.
func ownZones() map[string][]simulate.Record {
	address := func(name string) simulate.Record {
		return simulate.Record{Type: "A", Name: name, Content: documentationAddr, TTL: 300}
	}
	text := func(name, content string) simulate.Record {
		return simulate.Record{Type: "TXT", Name: name, Content: content, TTL: 300}
	}
	return map[string][]simulate.Record{
		"outlook.com": {
			text("spf.protection.outlook.com", "v=spf1 ip4:40.92.0.0/15 ip4:40.107.0.0/16 ip4:52.100.0.0/15 ip4:52.102.0.0/16 "+
				"ip4:52.103.0.0/17 ip4:104.47.0.0/17 ip6:2a01:111:f400::/48 ip6:2a01:111:f403::/49 -all"),
			address("autodiscover.outlook.com"),
			address("*.mail.protection.outlook.com"),
		},
		"mx.microsoft":        {address("*.mx.microsoft")},
		"onmicrosoft.com":     {text("*.onmicrosoft.com", dkimKey)},
		"dkim.mail.microsoft": {text("*.dkim.mail.microsoft", dkimKey)},
	}
}

// dkimKey is the DKIM public key that the platform publishes at each selector. The private key was
// deleted, because the simulator signs no mail.
const dkimKey = "v=DKIM1; k=rsa; p=" +
	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtdutiQq6h/2/1kN15htrVNvX++Oh7bq2IYANevhj4slUaJeqYWcQwv/+" +
	"XMA8GBGbOytSrKiO10LCo9LjemKyyWnZVJyoczc0xEQmSZkz7VyyNBXPHnhhAH8NELls1HSVvBqw2BNjB/DL6POColTt3TSujooi" +
	"nFxquJqgWW9Ybp7fgGA4G5FqQrktWgSuZ0XlopigVz84CDlH4v5TIFsb02S8SGPsLGt5yhP0e8GPhQhVQ2RG+vWMxoJb8dTotf27" +
	"7cSoUEd/F3qp+8+LOIx6WR/d3E4h4m9/oAo0kyH/KS/x8IP9BGPMAevobCZXLlbGwqRGlrYJqyf/jLGkKMqKsQIDAQAB"
