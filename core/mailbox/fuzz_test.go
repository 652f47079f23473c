// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
)

// FuzzAddress checks that an accepted address is a plain address of the domain. A second check must
// return the same address.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "ada@example.com", "ADA@Example.COM", "a@b@example.com", `"a b"@example.com`, "a@example.com\r\nBcc: x@y.example", "a@sub.example.com", ".a@example.com", "<a@example.com>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := mailbox.CheckAddresses("example.com", []mailbox.Spec{{DisplayName: "A", Address: raw}})
		if err != nil {
			return
		}
		address := got[0].Address
		if local, ok := strings.CutSuffix(address, "@example.com"); !ok || local == "" || len(local) > 64 || strings.ContainsFunc(local, func(c rune) bool { return c > unicode.MaxASCII || c <= ' ' || strings.ContainsRune(`"<>@,;:\()[]`, c) }) {
			t.Errorf("%q becomes %q, which is not a plain address of the domain", raw, address)
		}
		if rechecked, err := mailbox.CheckAddresses("example.com", got); err != nil || rechecked[0].Address != address {
			t.Errorf("%q: a second check changes %q to %v, %v", raw, address, rechecked, err)
		}
	})
}

// FuzzDisplayName checks that an accepted name is not empty and has no line break, NUL or U+202E,
// which reverses the text direction. A second check must return the same name.
func FuzzDisplayName(f *testing.F) {
	for _, seed := range []string{"", " ", "Ada", " Ada ", "\u202egnp.exe", "\u200b", "a\r\nb", "a\x00", "\xff", strings.Repeat("ä", 257)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		name, err := mailbox.DisplayName(raw, "name")
		if err != nil {
			return
		}
		if rechecked, err := mailbox.DisplayName(name, "name"); err != nil || rechecked != name {
			t.Errorf("%q: a second check changes %q to %q, %v", raw, name, rechecked, err)
		}
		if name == "" || strings.ContainsAny(name, "\r\n\x00\u202e") {
			t.Errorf("%q becomes %q, which is empty or has a forbidden character", raw, name)
		}
	})
}

// FuzzPassword checks that no error repeats a password of more than 20 bytes. An error can
// contain a shorter text by chance.
func FuzzPassword(f *testing.F) {
	for _, seed := range []string{"", "1234567", "Correct-Horse-7", strings.Repeat("a", 257), "\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if err := mailbox.CheckPassword(secret.New(raw)); err != nil && len(raw) > 20 && strings.Contains(err.Error(), raw) {
			t.Errorf("the error repeats %q", raw)
		}
	})
}
