// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
)

// wantItems are the wanted plan items by purpose, in the format of zoneCase.want.
type wantItems = map[dns.Purpose]string

// verificationTexts returns the verification records of 50 services. Their DNS answer is too long
// for UDP.
func verificationTexts() string {
	var all strings.Builder
	for i := range 50 {
		fmt.Fprintf(&all, "@ 300 TXT service-%02d-verification=0123456789abcdef0123456789abcdef\n", i)
	}
	return all.String()
}

// website has records that are not for mail.
const website = `
@ 600 A 192.0.2.80
@ 600 AAAA 2001:db8::80
www 600 CNAME web.elsewhere.test.
shop 60 CNAME shop.elsewhere.test.
`

var mxCases = []zoneCase{
	{name: "mx-right-with-lower-priority", records: "@ 300 MX 10 {d-}.r4nd.mx.microsoft.", want: wantItems{"mx": "preserve present +mx_preference"}},
	{name: "mx-mixed", records: "@ 300 MX 0 {d-}.r4nd.mx.microsoft.\n@ 300 MX 10 mx.elsewhere.test.", want: wantItems{"mx": "conflict mx_mixed"}},
	{name: "mx-other-provider", records: "@ 300 MX 1 aspmx.l.google.com.\n@ 300 MX 5 alt1.aspmx.l.google.com.", want: wantItems{"mx": "conflict mx_other_provider blocking"}},
	{
		name: "mx-forwarding-provider", records: "@ 300 MX 7 route1.mx.cloudflare.net.\n@ 300 TXT v=spf1 include:_spf.elsewhere.test ~all",
		want: wantItems{"mx": "conflict mx_other_provider blocking", "spf": "update spf_merged"},
	},
	{name: "mx-null", records: "@ 300 MX 0 .", want: wantItems{"mx": "conflict mx_null blocking"}},
	{name: "mx-host-without-address", records: "@ 300 MX 0 nothing.elsewhere.test.", want: wantItems{"mx": "conflict mx_broken blocking"}},
	{name: "mx-alias", records: "@ 300 MX 0 alias.elsewhere.test.", want: wantItems{"mx": "conflict mx_broken blocking"}},
	{
		name: "mx-earlier-platform", records: website + "@ 77 MX 0 {d-}.mail.protection.outlook.com.",
		removed: "@ 77 MX 0 {d-}.mail.protection.outlook.com.", added: "@ 77 MX 0 {d-}.r4nd.mx.microsoft.",
		want: wantItems{"mx": "update mx_platform_migration"},
	},
	{
		name: "mx-verification-record", records: "@ 300 MX 32767 ms12345678.msv1.invalid.",
		removed: "@ 300 MX 32767 ms12345678.msv1.invalid.", added: "@ 300 MX 0 {d-}.r4nd.mx.microsoft.",
		want: wantItems{"mx": "update mx_platform_migration"},
	},
	{
		name: "mx-verification-earlier-tenant", records: "@ 300 MX 32767 ms99999999.msv1.invalid.\n@ 300 MX 0 {d-}.r4nd.mx.microsoft.",
		removed: "@ 300 MX 32767 ms99999999.msv1.invalid.", want: wantItems{"mx": "update mx_platform_migration"},
	},
}

var dkimCases = []zoneCase{
	{
		name: "dkim-right", records: "selector1._domainkey 300 CNAME selector1-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft.",
		want: wantItems{"dkim_selector1": "preserve present"},
	},
	{name: "dkim-other", records: "selector1._domainkey 300 CNAME s1.elsewhere.test.", want: wantItems{"dkim_selector1": "conflict dkim_cname_taken blocking"}},
	{
		name: "dkim-other-tenant", records: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.fabrikam.onmicrosoft.com.",
		want: wantItems{"dkim_selector2": "conflict dkim_other_tenant blocking"},
	},
	{
		name: "dkim-earlier-form", records: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.onmicrosoft.com.",
		removed: "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.onmicrosoft.com.",
		added:   "selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.r-v1.dkim.mail.microsoft.",
		want:    wantItems{"dkim_selector2": "update dkim_platform_migration"},
	},
	{name: "dkim-key", records: "selector1._domainkey 300 TXT v=DKIM1; k=rsa; p=MIGfMA0G", want: wantItems{"dkim_selector1": "conflict dkim_txt_present blocking"}},
	{
		name: "dkim-delegated", records: "_domainkey 300 NS ns1.elsewhere.test.\n_domainkey 300 NS ns2.elsewhere.test.",
		want: wantItems{"dkim_selector1": "conflict dkim_delegated blocking", "dkim_selector2": "conflict dkim_delegated blocking"},
	},
}

var dmarcCases = []zoneCase{
	{
		name: "dmarc-strict", records: "_dmarc 300 TXT v=DMARC1; p=reject; adkim=s; rua=mailto:d@elsewhere.test",
		want: wantItems{"dmarc": "preserve dmarc_present +dmarc_strict"},
	},
	{name: "dmarc-two-policies", records: "_dmarc 300 TXT v=DMARC1; p=none\n_dmarc 300 TXT v=DMARC1; p=reject", want: wantItems{"dmarc": "conflict dmarc_multiple"}},
	{name: "dmarc-syntax", records: "_dmarc 300 TXT v=DMARC1; p", want: wantItems{"dmarc": "conflict dmarc_syntax"}},
	{name: "dmarc-absent-beside-other-text", records: "_dmarc 300 TXT hello", want: wantItems{}},
	{name: "dmarc-alias", records: "_dmarc 300 CNAME _dmarc.elsewhere.test.", want: wantItems{"dmarc": "preserve dmarc_alias"}},
	{
		name: "dmarc-inherited", at: "mail", records: website + "_dmarc 300 TXT v=DMARC1; p=reject\n@ 300 MX 1 aspmx.l.google.com.",
		want: wantItems{"dmarc": "preserve dmarc_inherited +dmarc_strict"},
	},
}

// overWildcard is the wanted plan item for a new record that replaces the answer of a wildcard.
const overWildcard = "create missing +wildcard_overridden"

var otherCases = []zoneCase{
	{name: "empty-zone"},
	{name: "with-a-website", records: website + "@ 300 CAA 0 issue \"ca.elsewhere.test\"\n_sip._tls 300 SRV 1 2 443 sip.elsewhere.test."},
	{name: "autodiscover-address", records: "autodiscover 300 A 192.0.2.9", want: wantItems{"autodiscover": "conflict autodiscover_taken"}},
	{name: "autodiscover-alias", records: "autodiscover 300 CNAME cpanel.elsewhere.test.", want: wantItems{"autodiscover": "conflict autodiscover_taken"}},
	{
		name: "alias-at-the-domain", at: "www", records: website,
		want: wantItems{"verification": "conflict cname_at_domain blocking", "mx": "conflict cname_at_domain blocking", "spf": "conflict cname_at_domain blocking"},
	},
	{name: "fifty-verification-texts", records: verificationTexts()},
	{name: "other-tenants", records: "@ 300 TXT MS=ms11111111\n@ 300 TXT MS=ms22222222"},
	{name: "odd-bytes", records: `@ 300 TXT "\255\254 \"quoted\" back\\slash; semi\009colon"` + "\n@ 300 TXT \"\" \"after an empty string\""},
	{name: "odd-ttl", records: "@ 77 TXT something\n@ 86400 MX 5 {d-}.r4nd.mx.microsoft.", want: wantItems{"mx": "preserve present +mx_preference"}},
	{
		name: "upper-and-lower-case",
		records: "@ 300 TXT V=SPF1 +Include:SPF.Protection.Outlook.COM ~ALL\n@ 300 TXT MS=ms12345678\n@ 300 MX 0 {d-}.R4ND.MX.Microsoft.\n" +
			"autodiscover 300 CNAME AutoDiscover.Outlook.COM.\nselector1._domainkey 300 CNAME Selector1-{d-}._DomainKey.Contoso.r-v1.dkim.mail.microsoft.\n" +
			"selector2._domainkey 300 CNAME selector2-{d-}._domainkey.contoso.r-v1.DKIM.mail.microsoft.",
		want: wantItems{"verification": "preserve present", "mx": "preserve present", "spf": "preserve present", "autodiscover": "preserve present",
			"dkim_selector1": "preserve present", "dkim_selector2": "preserve present"},
	},
	{
		name: "wildcard-text", records: "* 300 TXT v=spf1 -all",
		want: wantItems{"autodiscover": overWildcard, "dmarc": overWildcard, "dkim_selector1": overWildcard, "dkim_selector2": overWildcard},
	},
	{
		name: "wildcard-alias", records: "* 300 CNAME web.elsewhere.test.",
		want: wantItems{"autodiscover": overWildcard, "dmarc": overWildcard, "dkim_selector1": overWildcard, "dkim_selector2": overWildcard},
	},
	{name: "wildcard-dmarc", records: "* 300 TXT v=DMARC1; p=reject", want: wantItems{"dmarc": "preserve dmarc_present +dmarc_strict",
		"autodiscover": overWildcard, "dkim_selector1": overWildcard, "dkim_selector2": overWildcard}},
	{
		name: "domain-of-a-wildcard", at: "mail", records: "* 60 TXT v=spf1 mx ~all\n* 60 TXT something",
		want: wantItems{"verification": overWildcard, "spf": "update spf_merged +wildcard_overridden", "mx": overWildcard,
			"autodiscover": overWildcard, "dmarc": overWildcard, "dkim_selector1": overWildcard, "dkim_selector2": overWildcard},
		added: "mail 60 TXT v=spf1 mx {spf} ~all\nmail 60 TXT something",
	},
	{name: "mx-of-a-wildcard", at: "mail", records: "* 300 MX 1 mx.elsewhere.test.", want: wantItems{
		"mx": "conflict mx_other_provider blocking", "verification": overWildcard, "spf": overWildcard}},
}

// sharedZoneCases returns all cases except cloudflareCases. A case with onlyAt runs only at that
// provider.
func sharedZoneCases() []zoneCase {
	var all []zoneCase
	for _, cases := range [][]zoneCase{spfCases, mxCases, dkimCases, dmarcCases, otherCases} {
		all = append(all, cases...)
	}
	return all
}

// outsideZones are zones of other owners. The records of the cases name them.
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

// platformZones are the zones of the mail platform.
var platformZones = map[string]string{
	"outlook.com":         "spf.protection 300 TXT v=spf1 ip4:40.92.0.0/15 -all\nautodiscover 300 A 192.0.2.30\n*.mail.protection 300 A 192.0.2.31",
	"mx.microsoft":        "* 300 A 192.0.2.32",
	"onmicrosoft.com":     "* 300 TXT v=DKIM1; p=platform",
	"dkim.mail.microsoft": "* 300 TXT v=DKIM1; p=platform",
}

// longSPF is an SPF record of more than 450 octets without its "all" term.
var longSPF = "v=spf1" + strings.Repeat(" ip4:198.51.100.77", 26)

// mergedSPF returns a case in which the platform's include is merged into the only SPF record.
func mergedSPF(name, before, after string, notes ...string) zoneCase {
	return zoneCase{name: name, records: "@ 300 TXT " + before, removed: "@ 300 TXT " + before, added: "@ 300 TXT " + after,
		want: wantItems{"spf": strings.Join(append([]string{"update spf_merged"}, notes...), " ")}}
}

// unmergedSPF returns a case in which the SPF records stay unchanged.
func unmergedSPF(name, text, want string) zoneCase {
	return zoneCase{name: name, records: "@ 300 TXT " + text, want: wantItems{"spf": want}}
}

var spfCases = []zoneCase{
	mergedSPF("spf-one", "v=spf1 a mx ~all", "v=spf1 a mx {spf} ~all"),
	mergedSPF("spf-hardfail", "v=spf1 ip4:192.0.2.7 -all", "v=spf1 ip4:192.0.2.7 {spf} -all"),
	mergedSPF("spf-without-all", "v=spf1 a:web.elsewhere.test", "v=spf1 a:web.elsewhere.test {spf} ~all"),
	mergedSPF("spf-dead-terms", "v=spf1 a -all {spf}", "v=spf1 a {spf} -all {spf}"),
	mergedSPF("spf-redirect", "v=spf1 redirect=_spf.elsewhere.test", "v=spf1 {spf} redirect=_spf.elsewhere.test"),
	mergedSPF("spf-macros", "v=spf1  exists:%{i}._s.elsewhere.test X-Note=%{h} exp=why.elsewhere.test ?ALL",
		"v=spf1  exists:%{i}._s.elsewhere.test X-Note=%{h} exp=why.elsewhere.test {spf} ?ALL", "+spf_neutral"),
	mergedSPF("spf-ptr", "v=spf1 ptr ~all", "v=spf1 ptr {spf} ~all", "+spf_ptr"),
	mergedSPF("spf-long", longSPF+" ~all", longSPF+" {spf} ~all", "+spf_long"),
	mergedSPF("spf-split-in-a-word", `"v=spf1 include:_sp" "f.elsewhere.test -all"`, "v=spf1 include:_spf.elsewhere.test {spf} -all"),
	mergedSPF("spf-nine-lookups", "v=spf1 include:_six.elsewhere.test a ~all", "v=spf1 include:_six.elsewhere.test a {spf} ~all", "+spf_lookups_near_limit"),
	mergedSPF("spf-ten-lookups", "v=spf1 include:_six.elsewhere.test a mx ~all", "v=spf1 include:_six.elsewhere.test a mx {spf} ~all", "+spf_lookups_near_limit"),
	mergedSPF("spf-name-without-records", "v=spf1 include:nothing.elsewhere.test ~all", "v=spf1 include:nothing.elsewhere.test {spf} ~all", "+spf_reference_broken"),
	unmergedSPF("spf-eleven-lookups", "v=spf1 include:_six.elsewhere.test a mx ptr ~all", "conflict spf_lookup_limit blocking"),
	{
		name: "spf-unreachable-name", records: "@ 300 TXT v=spf1 include:_spf.unreachable.example ~all",
		want: wantItems{"spf": "conflict spf_lookups_unknown blocking"}, onlyAt: "powerdns", // the sandbox's DNS answers for all names, so no name is unreachable
	},
	unmergedSPF("spf-syntax", "v=spf1 ip4:300.1.2.3 -all", "conflict spf_syntax blocking"),
	unmergedSPF("spf-permissive", "v=spf1 a +all", "conflict spf_permissive"),
	unmergedSPF("spf-negated", "v=spf1 a -{spf} ~all", "conflict spf_include_negated blocking"),
	unmergedSPF("spf-no-mail", "v=spf1 -all", "conflict spf_was_no_mail blocking"),
	unmergedSPF("spf-nested", "v=spf1 include:_agency.elsewhere.test -all", "preserve spf_indirect"),
	unmergedSPF("spf-redirect-to-include", "v=spf1 redirect=_agency.elsewhere.test", "preserve spf_indirect"),
	unmergedSPF("spf-two", "v=spf1 a ~all\n@ 300 TXT v=spf1 mx -all", "conflict spf_multiple blocking"),
	{
		name: "spf-duplicates", records: "@ 300 TXT v=spf1 mx ~all\n" + `@ 300 TXT "v=spf1 " "mx ~all"`,
		removed: "@ 300 TXT v=spf1 mx ~all\n" + `@ 300 TXT "v=spf1 " "mx ~all"`, added: "@ 300 TXT v=spf1 mx {spf} ~all",
		want: wantItems{"spf": "update spf_merged"}, onlyAt: "powerdns", // Cloudflare refuses a duplicate record
	},
	{
		name: "spf-duplicates-with-include", records: "@ 300 TXT v=spf1 {spf} -all\n" + `@ 300 TXT "v=spf1 " "{spf} -all"`,
		removed: `@ 300 TXT "v=spf1 " "{spf} -all"`, want: wantItems{"spf": "update spf_duplicates"}, onlyAt: "powerdns",
	},
	{
		name: "spf-lookalike", records: "@ 300 TXT v=spf10 a -all", // not an SPF record
	},
}
