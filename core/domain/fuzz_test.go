// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/domain"
)

// FuzzParseName checks that ParseName returns a canonical name. ParseName and ParseNameOrNone must
// return a canonical name unchanged.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"", "example.com", "EXAMPLE.com.", "müller.example", "xn--mller-kva.example", "a。example", "co.uk", "a.onmicrosoft.com", "127.0.0.1", "a\x00.example", "xn--a.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		canonical := domain.ParseNameOrNone(raw)
		if canonical != domain.NoName && domain.ParseNameOrNone(canonical) != canonical {
			t.Errorf("%q: %q becomes %q, want it unchanged", raw, canonical, domain.ParseNameOrNone(canonical))
		}
		name, err := domain.ParseName(raw, builtinSuffixes)
		if err != nil {
			return
		}
		if reparsed, err := domain.ParseName(name, builtinSuffixes); err != nil || reparsed != name || canonical != name {
			t.Errorf("%q: ParseName changes its result %q to %q, %v, or ParseNameOrNone returns a different name: %q", raw, name, reparsed, err, canonical)
		}
		if len(name) > 253 || name != strings.ToLower(name) || strings.HasSuffix(name, ".onmicrosoft.com") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("%q becomes %q, which is not canonical or is a built-in name", raw, name)
		}
	})
}
