// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import "strings"

// text joins the strings of a TXT record to its bytes. The library hands them
// out in presentation form, where \DDD and \c stand for single bytes.
func text(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		for i := 0; i < len(p); i++ {
			if p[i] != '\\' || i+1 == len(p) {
				b.WriteByte(p[i])
				continue
			}
			if v, ok := decimal(p[i+1:]); ok {
				b.WriteByte(v)
				i += 3
				continue
			}
			i++
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

// decimal reads the three digits of a \DDD escape.
func decimal(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s[:3]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n < 256
}
