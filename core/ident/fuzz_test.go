// SPDX-License-Identifier: Apache-2.0

package ident_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/ident"
)

var form = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// FuzzParse: exactly the plain form is a UUID, and anything can be looked up.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "x", ident.Zero, strings.ToUpper("aaaaaaaa-0000-4000-8000-000000000001"), "{" + ident.Zero + "}", "urn:uuid:" + ident.Zero, strings.ReplaceAll(ident.Zero, "-", ""), ident.Zero + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		id, ok := ident.Parse(raw)
		if ok != form.MatchString(raw) || ok && id != strings.ToLower(raw) {
			t.Errorf("%q gives %q, %v", raw, id, ok)
		}
		if looked := ident.Lookup(raw); !form.MatchString(looked) || ok && looked != id {
			t.Errorf("%q is looked up as %q", raw, looked)
		}
	})
}
