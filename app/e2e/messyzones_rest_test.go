// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
)

// says is what a plan says by purpose.
type says = map[dns.Purpose]string

// proofs are the texts of fifty services, which only TCP brings.
func proofs() string {
	var all strings.Builder
	for i := range 50 {
		fmt.Fprintf(&all, "@ 300 TXT service-%02d-verification=0123456789abcdef0123456789abcdef\n", i)
	}
	return all.String()
}

// website is what nearly every zone has beside its mail.
const website = `
@ 600 A 192.0.2.80
@ 600 AAAA 2001:db8::80
www 600 CNAME web.elsewhere.test.
shop 60 CNAME shop.elsewhere.test.
`

var messyMX = []messy{
	{name: "mx-right-but-later", past: "@ 300 MX 10 {d-}.r4nd.mx.microsoft.", want: says{"mx": "preserve present +mx_preference"}},
	{name: "mx-mixed", past: "@ 300 MX 0 {d-}.r4nd.mx.microsoft.\n@ 300 MX 10 mx.elsewhere.test.", want: says{"mx": "conflict mx_mixed"}},
	{name: "mx-other", past: "@ 300 MX 1 aspmx.l.google.com.\n@ 300 MX 5 alt1.aspmx.l.google.com.", want: says{"mx": "conflict mx_other_provider blocking"}},
	{
		name: "mx-routing", past: "@ 300 MX 7 route1.mx.cloudflare.net.\n@ 300 TXT v=spf1 include:_spf.elsewhere.test ~all",
		want: says{"mx": "conflict mx_other_provider blocking", "spf": "update spf_merged"},
	},
	{name: "mx-null", past: "@ 300 MX 0 .", want: says{"mx": "conflict mx_null blocking"}},
	{name: "mx-nowhere", past: "@ 300 MX 0 nothing.elsewhere.test.", want: says{"mx": "conflict mx_broken blocking"}},
	{name: "mx-alias", past: "@ 300 MX 0 alias.elsewhere.test.", want: says{"mx": "conflict mx_broken blocking"}},
	{
		name: "mx-earlier-platform", past: website + "@ 77 MX 0 {d-}.mail.protection.outlook.com.",
		gone: "@ 77 MX 0 {d-}.mail.protection.outlook.com.", come: "@ 77 MX 0 {d-}.r4nd.mx.microsoft.",
		want: says{"mx": "update mx_platform_migration"},
	},
	{name: "mx-proof", past: "@ 300 MX 32767 ms12345678.msv1.invalid."},
}

var messyDKIM = []messy{
	{
		name: "dkim-right", past: "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft.",
		want: says{"dkim_selector1": "preserve present"},
	},
	{name: "dkim-other", past: "selector1._domainkey 300 CNAME s1.elsewhere.test.", want: says{"dkim_selector1": "conflict dkim_cname_taken blocking"}},
	{
		name: "dkim-other-tenant", past: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.fabrikam.onmicrosoft.com.",
		want: says{"dkim_selector2": "conflict dkim_other_tenant blocking"},
	},
	{
		name: "dkim-earlier-form", past: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.onmicrosoft.com.",
		gone: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.onmicrosoft.com.",
		come: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft.",
		want: says{"dkim_selector2": "update dkim_platform_migration"},
	},
	{name: "dkim-key", past: "selector1._domainkey 300 TXT v=DKIM1; k=rsa; p=MIGfMA0G", want: says{"dkim_selector1": "conflict dkim_txt_present blocking"}},
	{
		name: "dkim-delegated", past: "_domainkey 300 NS ns1.elsewhere.test.\n_domainkey 300 NS ns2.elsewhere.test.",
		want: says{"dkim_selector1": "conflict dkim_delegated blocking", "dkim_selector2": "conflict dkim_delegated blocking"},
	},
}

var messyDMARC = []messy{
	{
		name: "dmarc-strict", past: "_dmarc 300 TXT v=DMARC1; p=reject; adkim=s; rua=mailto:d@elsewhere.test",
		want: says{"dmarc": "preserve dmarc_present +dmarc_strict"},
	},
	{name: "dmarc-two", past: "_dmarc 300 TXT v=DMARC1; p=none\n_dmarc 300 TXT v=DMARC1; p=reject", want: says{"dmarc": "conflict dmarc_multiple"}},
	{name: "dmarc-syntax", past: "_dmarc 300 TXT v=DMARC1; p", want: says{"dmarc": "conflict dmarc_syntax"}},
	{name: "dmarc-beside-others", past: "_dmarc 300 TXT hello", want: says{}},
	{name: "dmarc-alias", past: "_dmarc 300 CNAME _dmarc.elsewhere.test.", want: says{"dmarc": "preserve dmarc_alias"}},
	{
		name: "dmarc-inherited", at: "mail", past: website + "_dmarc 300 TXT v=DMARC1; p=reject\n@ 300 MX 1 aspmx.l.google.com.",
		want: says{"dmarc": "preserve dmarc_inherited +dmarc_strict"},
	},
}

// overridden is said of what is created where a wildcard has stood in.
const overridden = "create missing +wildcard_overridden"

var messyOther = []messy{
	{name: "fresh"},
	{name: "with-a-website", past: website + "@ 300 CAA 0 issue \"ca.elsewhere.test\"\n_sip._tls 300 SRV 1 2 443 sip.elsewhere.test."},
	{name: "autodiscover-address", past: "autodiscover 300 A 192.0.2.9", want: says{"autodiscover": "conflict autodiscover_taken"}},
	{name: "autodiscover-alias", past: "autodiscover 300 CNAME cpanel.elsewhere.test.", want: says{"autodiscover": "conflict autodiscover_taken"}},
	{
		name: "alias-at-the-domain", at: "www", past: website,
		want: says{"verification": "conflict cname_at_domain blocking", "mx": "conflict cname_at_domain blocking", "spf": "conflict cname_at_domain blocking"},
	},
	{name: "fifty-proofs", past: proofs()},
	{name: "other-tenants", past: "@ 300 TXT MS=ms11111111\n@ 300 TXT MS=ms22222222"},
	{name: "odd-bytes", past: `@ 300 TXT "\255\254 \"quoted\" back\\slash; semi\009colon"` + "\n@ 300 TXT \"\" \"after an empty string\""},
	{name: "odd-ttl", past: "@ 77 TXT something\n@ 86400 MX 5 {d-}.r4nd.mx.microsoft.", want: says{"mx": "preserve present +mx_preference"}},
	{
		name: "letters-and-dots",
		past: "@ 300 TXT V=SPF1 +Include:SPF.Protection.Outlook.COM ~ALL\n@ 300 TXT MS=ms12345678\n@ 300 MX 0 {d-}.R4ND.MX.Microsoft.\n" +
			"autodiscover 300 CNAME AutoDiscover.Outlook.COM.\nselector1._domainkey 300 CNAME Selector1-{d-}._DomainKey.Contoso.r-v1.dkim.mail.microsoft.\n" +
			"selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.r-v1.DKIM.mail.microsoft.",
		want: says{"verification": "preserve present", "mx": "preserve present", "spf": "preserve present", "autodiscover": "preserve present",
			"dkim_selector1": "preserve present", "dkim_selector2": "preserve present"},
	},
	{
		name: "wildcard-text", past: "* 300 TXT v=spf1 -all",
		want: says{"autodiscover": overridden, "dmarc": overridden, "dkim_selector1": overridden, "dkim_selector2": overridden},
	},
	{
		name: "wildcard-alias", past: "* 300 CNAME web.elsewhere.test.",
		want: says{"autodiscover": overridden, "dmarc": overridden, "dkim_selector1": overridden, "dkim_selector2": overridden},
	},
	{name: "wildcard-policy", past: "* 300 TXT v=DMARC1; p=reject", want: says{"dmarc": "preserve dmarc_present +dmarc_strict",
		"autodiscover": overridden, "dkim_selector1": overridden, "dkim_selector2": overridden}},
	{
		name: "lives-by-a-wildcard", at: "mail", past: "* 60 TXT v=spf1 mx ~all\n* 60 TXT something",
		want: says{"verification": overridden, "spf": "update spf_merged +wildcard_overridden", "mx": overridden,
			"autodiscover": overridden, "dmarc": overridden, "dkim_selector1": overridden, "dkim_selector2": overridden},
		come: "mail 60 TXT v=spf1 mx {spf} ~all\nmail 60 TXT something",
	},
	{name: "mail-by-a-wildcard", at: "mail", past: "* 300 MX 1 mx.elsewhere.test.", want: says{
		"mx": "conflict mx_other_provider blocking", "verification": overridden, "spf": overridden}},
}

// mess is the whole set.
func mess() []messy {
	var all []messy
	for _, some := range [][]messy{messySPF, messyMX, messyDKIM, messyDMARC, messyOther} {
		all = append(all, some...)
	}
	return all
}

// outsideZones are the rest of the world: what the zones' records refer to.
var outsideZones = map[string]string{
	"elsewhere.test": `
_spf 300 TXT v=spf1 ip4:198.51.100.0/24 -all
_agency 300 TXT v=spf1 ip4:198.51.100.7 include:spf.protection.outlook.com ~all
_six 300 TXT v=spf1 a mx a:web.elsewhere.test mx:elsewhere.test exists:%{i}._s.elsewhere.test a:mx.elsewhere.test -all
_dmarc 300 TXT v=DMARC1; p=quarantine
mx 300 A 192.0.2.25
web 300 A 192.0.2.80
shop 300 A 192.0.2.81
cpanel 300 A 192.0.2.82
s1 300 TXT v=DKIM1; p=other
alias 300 CNAME mx.elsewhere.test.
`,
	"google.com":        "aspmx.l 300 A 192.0.2.26\nalt1.aspmx.l 300 A 192.0.2.27",
	"mx.cloudflare.net": "route1 300 A 192.0.2.28",
}

// platformZones are the mail platform's part of the world, which the sandbox has.
var platformZones = map[string]string{
	"outlook.com":         "spf.protection 300 TXT v=spf1 ip4:40.92.0.0/15 -all\nautodiscover 300 A 192.0.2.30\n*.mail.protection 300 A 192.0.2.31",
	"mx.microsoft":        "* 300 A 192.0.2.32",
	"onmicrosoft.com":     "* 300 TXT v=DKIM1; p=platform",
	"dkim.mail.microsoft": "* 300 TXT v=DKIM1; p=platform",
}
