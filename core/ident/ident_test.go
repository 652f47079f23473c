// SPDX-License-Identifier: Apache-2.0

package ident_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/ident"
)

func TestParseOrZeroAcceptsOnlyTheHyphenatedForm(t *testing.T) {
	const id = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"
	for _, tc := range []struct{ name, raw, want string }{
		{"canonical", id, id},
		{"upper case", strings.ToUpper(id), id},
		{"braces", "{" + id + "}", ident.Zero},
		{"urn", "urn:uuid:" + id, ident.Zero},
		{"no hyphens", strings.ReplaceAll(id, "-", ""), ident.Zero},
		{"hyphen moved", "7b1d9c5-26a0e-4a55-8f0e-0c2f5b6a9d11", ident.Zero},
		{"a digit that is not hexadecimal", "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9g11", ident.Zero},
		{"one digit too few", id[1:], ident.Zero},
		{"one digit too many", id + "0", ident.Zero},
		{"empty", "", ident.Zero},
		{"a NUL at the end", "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d1\x00", ident.Zero},
		{"a path", "../../etc/passwd", ident.Zero},
		{"full-width digit of the same length in bytes", "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9\uff11", ident.Zero},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ident.ParseOrZero(tc.raw); got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseIgnoresCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.StringMatching(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`).Draw(t, "uuid")
		if got, ok := ident.Parse(raw); !ok || got != strings.ToLower(raw) {
			t.Fatalf("Parse(%q): got %q, %t; want lower case, true", raw, got, ok)
		}
	})
}

func TestNewIDsSortByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawEntropy := func(name string) [ident.EntropyBytes]byte {
			return [ident.EntropyBytes]byte(rapid.SliceOfN(rapid.Byte(), ident.EntropyBytes, ident.EntropyBytes).Draw(t, name))
		}
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
		earlier, later := ident.New(at, drawEntropy("one")), ident.New(at.Add(time.Millisecond), drawEntropy("two"))
		if earlier >= later {
			t.Fatalf("the earlier id %s sorts after the later id %s", earlier, later)
		}
		if parsed, ok := ident.Parse(earlier); !ok || parsed != earlier || earlier[14] != '7' || !strings.ContainsRune("89ab", rune(earlier[19])) {
			t.Fatalf("%s is not a UUIDv7", earlier)
		}
	})
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// FuzzParse checks that Parse accepts exactly 32 hexadecimal digits with hyphens, and that
// ParseOrZero always returns a UUID.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "x", ident.Zero, strings.ToUpper("aaaaaaaa-0000-4000-8000-000000000001"), "{" + ident.Zero + "}", "urn:uuid:" + ident.Zero, strings.ReplaceAll(ident.Zero, "-", ""), ident.Zero + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		id, ok := ident.Parse(raw)
		if ok != uuidForm.MatchString(raw) || ok && id != strings.ToLower(raw) {
			t.Errorf("Parse(%q): got %q, %t; want lower case if it is a UUID", raw, id, ok)
		}
		if parsed := ident.ParseOrZero(raw); !uuidForm.MatchString(parsed) || ok && parsed != id {
			t.Errorf("ParseOrZero(%q): got %q, want the result of Parse or Zero", raw, parsed)
		}
	})
}
