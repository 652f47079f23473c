// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"strings"
)

// The corpus of hostile values, made by what it is about. canary stands where
// a secret would: no answer may hold it.
const canary = "Kanarien-Vogel-77x"

// nesting is an array in an array …
func nesting(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// wrongTypes are JSON values that are hardly ever right.
func wrongTypes() []string {
	return []string{`null`, `true`, `0`, `-0`, `-1`, `26`, `2.5`, `5.0`, `1e1`, `1e9`, `1e400`, `-1e400`, `9223372036854775808`, `18446744073709551616`,
		`"5"`, `""`, `[]`, `{}`, `[null]`, `[[]]`, `[{}]`, `{"a":null}`, nesting(15), nesting(17), nesting(9990), `NaN`, `Infinity`, `0x10`, `05`, `'a'`, `undefined`,
		`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", `"\x41"`, "\"a\nb\"", `"` + strings.Repeat("x", 60<<10) + `"`,
		`[` + strings.Repeat(`1,`, 20000) + `1]`, `[` + strings.Repeat(`{},`, 15000) + `{}]`}
}

// words are strings that mean something to somebody behind us.
func words() []string {
	return []string{" ", "\t", "\u200b", "\u202egnp.exe", "👩‍👩‍👧‍👦", "\r\nBcc: x@y.example", "=cmd()|' /C calc'!A0", "<script>alert(1)</script>", `"; Remove-Mailbox -Identity *`,
		"$(id)", "`id`", strings.Repeat("'", 1000), "{{7*7}}", "${jndi:ldap://x}", "') or 1 eq 1", "*)(uid=*", "'; DROP TABLE tenants;--", "../../etc/passwd", "__proto__",
		"constructor", "%00", "%s%n", strings.Repeat("a", 256), strings.Repeat("a", 257), strings.Repeat("ä", 256), "e\u0301", "\u212b", "\ufb01", "\ufeff", "\u0001", "\u007f"}
}

// names are domain names that are none, or are not what they look like.
func names() []string {
	label := strings.Repeat("a", 63)
	return []string{"EXAMPLE.com", "example.com.", "example.com..", ".example.com", "a..example.com", label + ".example", label + "a.example",
		label + "." + label + "." + label + "." + label[:61], label + "." + label + "." + label + "." + label, "nodots", "exa mple.com", "a_b.example", "-a.example", "a-.example",
		"xn--mller-kva.example", "xn--a.example", "xn--example-.com", "xn--zzzzzzzzzzzz.example", "müller.example", "a。example", "a\u200d.example", "\u202eexample.com", "аррle.example",
		"127.0.0.1", "[::1]", "0x7f.1", "example.com:25", "https://example.com/", "user@example.com", "example.com/x", "*.example.com", "a\r\nb.example", "a\x00.example", "a\t.example",
		"com", "co.uk", "github.io", "localhost", "example", "invalid", "internal", "in-addr.arpa", "OnMicrosoft.COM", "a.ONMICROSOFT.com.", "a.b.onmicrosoft.com",
		"mail.onmicrosoft.com", "ｏnmicrosoft.com", "a.ｏnmicrosoft.com", "notonmicrosoft.com", "onmicrosoft.com.evil.example", strings.Repeat("a.", 30000) + "example"}
}

// addresses are mailbox addresses of the same kind.
func addresses() []string {
	all := []string{"", "@example.com", "a@", "a", "a@b@example.com", `"a b"@example.com`, ".a@example.com", "a.@example.com", "a..b@example.com", "a+b@example.com",
		"ä@example.com", "Evil <a@example.com>", "a@example.com (comment)", "a@sub.example.com", "a@EXAMPLE.COM", "a@example.com.", "a@other.example", "a@xn--mller-kva.example",
		"a@müller.example", "a@example.com\r\nBcc: b@example.com", "a\x00@example.com", "postmaster@example.com", "ABUSE@example.com", "<a@example.com>", "a@[127.0.0.1]",
		strings.Repeat("a", 64) + "@example.com", strings.Repeat("a", 65) + "@example.com"}
	for _, name := range names() {
		all = append(all, "a@"+name)
	}
	return all
}

// passwords end with the canary where they can.
func passwords() []string {
	return []string{"", "1234567", "12345678", "kanarien" + "-vogel", canary + strings.Repeat("x", 238), canary + strings.Repeat("x", 239), strings.Repeat(" ", 8), canary + "\x00", "ä" + canary, canary}
}

// quoted are the strings as JSON.
func quoted(all []string) (values []string) {
	for _, s := range all {
		raw, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		values = append(values, string(raw))
	}
	return values
}

// valuesFor are JSON values for a member, by its name.
func valuesFor(member string) []string {
	values := append(wrongTypes(), quoted(words())...)
	switch {
	case strings.Contains(member, "domain"):
		values = append(values, quoted(names())...)
	case strings.Contains(member, "email"):
		values = append(values, quoted(addresses())...)
	case strings.Contains(member, "password"):
		values = append(values, quoted(passwords())...)
	}
	return values
}

// segments are values in a path, as they stand in the URL.
func segments() []string {
	return []string{"x", "0", "-", "%20", "%00", "%0a", "%0d%0aSet-Cookie:%20a=b", "%2e%2e", "..%2f..%2f", "a%2fb", "%ff", "%c0%af", "%ed%a0%80", "%D0%BF.example", "%3Cscript%3E",
		"%27%20OR%201=1--", "%25", "%252e", "00000000-0000-0000-0000-000000000000", "urn:uuid:aaaaaaaa-0000-4000-8000-000000000001", "%7Baaaaaaaa-0000-4000-8000-000000000001%7D",
		"aaaaaaaa000040008000000000000001", "AAAAAAAA-0000-4000-8000-000000000001", strings.Repeat("9", 3000), strings.Repeat("%C3%A4", 500), "example.com.", "EXAMPLE.COM", "a;b=c", "~", "*", "(1)"}
}

// queries are whole query strings.
func queries() []string {
	return []string{"x=1", "x=1&x=2", "%00=1", "%zz", "a=%ff", "user_email=a&user_email=b", "user_email=", "user_email=%00", "user_email=%ff", "limit=0", "limit=-1", "limit=abc", "limit=9223372036854775808",
		"offset=-1", "active_only=yes", "tenant_id=x", "limit=1&limit=2", "limit[]=1", ";", "&&&&", "=", strings.Repeat("a=b&", 3000), "user_email=" + strings.Repeat("a", 8000), "user_email=" + canary}
}

// headers are a header with a value, for the client's own net/http.
func headers() [][2]string {
	all := [][2]string{{"Idempotency-Key", ""}, {"Idempotency-Key", "a b"}, {"Idempotency-Key", strings.Repeat("k", 256)}, {"Idempotency-Key", "ü"}, {"Idempotency-Key", `"quoted"`},
		{"X-Request-ID", "a b"}, {"X-Request-ID", strings.Repeat("x", 8<<10)}, {"X-Request-ID", "<script>"}, {"X-Request-ID", "${x}"}, {"X-Request-ID", "\xe9"},
		{"X-HTTP-Method-Override", "DELETE"}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Host", "evil.example"}, {"Accept", "text/html"}, {"Accept", "application/xml"},
		{"Accept", "application/json;q=0"}, {"Accept", ";;;,,,q=x"}, {"Accept", strings.Repeat("a/b,", 2000)}, {"Traceparent", "00-0-0-0"},
		{"Traceparent", strings.Repeat("0", 500)}, {"Traceparent", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"Tracestate", strings.Repeat("a=b,", 500)},
		{"Baggage", strings.Repeat("a=b,", 2000)}, {"Content-Encoding", "gzip"}, {"Content-Encoding", "identity"}, {"Authorization", "Bearer " + canary}, {"Authorization", "Basic " + canary},
		{"Authorization", "Bearer"}, {"Authorization", "Bearer  x"}, {"Authorization", strings.Repeat("a", 10000)}, {"Cookie", strings.Repeat("a=b;", 2000)}, {"Range", "bytes=0-1"}, {"If-None-Match", "*"},
		{"Origin", "https://evil.example"}, {"Host", "evil.example"}, {"Upgrade", "h2c"}, {"Connection", "Upgrade"}}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/cbor", "application/json; charset=utf-16", "application/json;;", "application/jsonx", "x", "*/*"} {
		all = append(all, [2]string{"Content-Type", kind})
	}
	return all
}

// documents are whole bodies that are no good request.
func documents(good string) []string {
	return []string{"", "{}", "[]", "null", "1", `"x"`, "{", "}", good + "x", good + good, "\ufeff" + good, " \n\t" + good + "\n", "a=b", "<a/>", "\x1f\x8b\x08\x00", "\x00", nesting(16), nesting(20000),
		`{"a":` + nesting(14) + `}`, strings.Repeat(" ", 64<<10), strings.Repeat(" ", 64<<10+1), `{"unknown":"` + canary + `"}`, `{"__proto__":{}}`, `{"":1}`, `{"$schema":"x"}`, "{\"a\xff\":1}", `{"a":1,"a":2}`}
}
