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
			t.Errorf("%q: %q becomes %q", raw, canonical, domain.ParseNameOrNone(canonical))
		}
		name, err := domain.ParseName(raw, builtin)
		if err != nil {
			return
		}
		if again, err := domain.ParseName(name, builtin); err != nil || again != name || canonical != name {
			t.Errorf("%q: %q becomes %q, %v; ParseNameOrNone returns %q", raw, name, again, err, canonical)
		}
		if len(name) > 253 || name != strings.ToLower(name) || strings.HasSuffix(name, ".onmicrosoft.com") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("%q becomes %q, which is not canonical or is a built-in name", raw, name)
		}
	})
}
