// SPDX-License-Identifier: Apache-2.0

package e2e

import "strings"

// long is an SPF record of more than 450 octets without its end.
var long = "v=spf1" + strings.Repeat(" ip4:198.51.100.77", 26)

// merge is a zone whose one SPF record gets the platform's include.
func merge(name, before, after string, notes ...string) messy {
	return messy{name: name, past: "@ 300 TXT " + before, gone: "@ 300 TXT " + before, come: "@ 300 TXT " + after,
		want: says{"spf": strings.Join(append([]string{"update spf_merged"}, notes...), " ")}}
}

// stays is a zone whose SPF record is left as it is.
func stays(name, text, want string) messy {
	return messy{name: name, past: "@ 300 TXT " + text, want: says{"spf": want}}
}

var messySPF = []messy{
	merge("spf-one", "v=spf1 a mx ~all", "v=spf1 a mx {spf} ~all"),
	merge("spf-hardfail", "v=spf1 ip4:192.0.2.7 -all", "v=spf1 ip4:192.0.2.7 {spf} -all"),
	merge("spf-without-all", "v=spf1 a:web.elsewhere.test", "v=spf1 a:web.elsewhere.test {spf} ~all"),
	merge("spf-dead-terms", "v=spf1 a -all {spf}", "v=spf1 a {spf} -all {spf}"),
	merge("spf-redirect", "v=spf1 redirect=_spf.elsewhere.test", "v=spf1 {spf} redirect=_spf.elsewhere.test"),
	merge("spf-macros", "v=spf1  exists:%{i}._s.elsewhere.test X-Note=%{h} exp=why.elsewhere.test ?ALL",
		"v=spf1  exists:%{i}._s.elsewhere.test X-Note=%{h} exp=why.elsewhere.test {spf} ?ALL", "+spf_neutral"),
	merge("spf-ptr", "v=spf1 ptr ~all", "v=spf1 ptr {spf} ~all", "+spf_ptr"),
	merge("spf-long", long+" ~all", long+" {spf} ~all", "+spf_long"),
	merge("spf-split-in-a-word", `"v=spf1 include:_sp" "f.elsewhere.test -all"`, "v=spf1 include:_spf.elsewhere.test {spf} -all"),
	merge("spf-nine-lookups", "v=spf1 include:_six.elsewhere.test a ~all", "v=spf1 include:_six.elsewhere.test a {spf} ~all", "+spf_lookups_near_limit"),
	merge("spf-ten-lookups", "v=spf1 include:_six.elsewhere.test a mx ~all", "v=spf1 include:_six.elsewhere.test a mx {spf} ~all", "+spf_lookups_near_limit"),
	merge("spf-void-name", "v=spf1 include:nothing.elsewhere.test ~all", "v=spf1 include:nothing.elsewhere.test {spf} ~all", "+spf_reference_broken"),
	stays("spf-eleven-lookups", "v=spf1 include:_six.elsewhere.test a mx ptr ~all", "conflict spf_lookup_limit blocking"),
	{
		name: "spf-unknown-name", past: "@ 300 TXT v=spf1 include:_spf.unreachable.example ~all",
		want: says{"spf": "conflict spf_lookups_unknown blocking"}, only: "powerdns", // the sandbox knows all names
	},
	stays("spf-syntax", "v=spf1 ip4:300.1.2.3 -all", "conflict spf_syntax blocking"),
	stays("spf-permissive", "v=spf1 a +all", "conflict spf_permissive"),
	stays("spf-negated", "v=spf1 a -{spf} ~all", "conflict spf_include_negated blocking"),
	stays("spf-no-mail", "v=spf1 -all", "conflict spf_was_no_mail blocking"),
	stays("spf-nested", "v=spf1 include:_agency.elsewhere.test -all", "preserve spf_indirect"),
	stays("spf-redirect-to-it", "v=spf1 redirect=_agency.elsewhere.test", "preserve spf_indirect"),
	stays("spf-two", "v=spf1 a ~all\n@ 300 TXT v=spf1 mx -all", "conflict spf_multiple blocking"),
	{
		name: "spf-twins", past: "@ 300 TXT v=spf1 mx ~all\n" + `@ 300 TXT "v=spf1 " "mx ~all"`,
		gone: "@ 300 TXT v=spf1 mx ~all\n" + `@ 300 TXT "v=spf1 " "mx ~all"`, come: "@ 300 TXT v=spf1 mx {spf} ~all",
		want: says{"spf": "update spf_merged"}, only: "powerdns", // Cloudflare takes no record twice
	},
	{
		name: "spf-twins-with-it", past: "@ 300 TXT v=spf1 {spf} -all\n" + `@ 300 TXT "v=spf1 " "{spf} -all"`,
		gone: `@ 300 TXT "v=spf1 " "{spf} -all"`, want: says{"spf": "update spf_duplicates"}, only: "powerdns",
	},
	{
		name: "spf-lookalike", past: "@ 300 TXT v=spf10 a -all", // which is none
	},
}
