// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/integration"
)

func TestAuthURLsMustUseAnAllowedHost(t *testing.T) {
	hosts := []string{"login.microsoftonline.com", "127.0.0.1:8443", "proxy.example:8443"}
	for raw, want := range map[string]bool{
		"https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x": true,
		"https://proxy.example:8443/a":                                           true,
		"http://127.0.0.1:8443/authorize":                                        true,
		"http://login.microsoftonline.com/":                                      false,
		"https://login.microsoftonline.com.evil/":                                false,
		"https://evil/login.microsoftonline.com":                                 false,
		"https://a@login.microsoftonline.com/":                                   false,
		"https://login.microsoftonline.com:8443/":                                false,
		"https://proxy.example/":                                                 false,
		"javascript:alert(1)":                                                    false,
		"https:login.microsoftonline.com":                                        false,
		"//login.microsoftonline.com/":                                           false,
		"https://login.microsoftonline.com\\@evil/":                              false,
		"http://127.0.0.2:8443/":                                                 false,
		"":                                                                       false,
		"ftp://login.microsoftonline.com/":                                       false,
		"https://LOGIN.microsoftonline.com/":                                     false,
		"https://login.microsoftonline.com%2eevil/x":                             false,
	} {
		if got := integration.IsAllowedAuthURL(raw, hosts); got != want {
			t.Errorf("%q: got %t, want %t", raw, got, want)
		}
	}
}

func TestSameAddressIgnoresOnlyTheCase(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"anna@a.test", "Anna@A.TEST", true},
		{"anna@a.test", "joanna@a.test", false},
		{"anna@a.test", "anna@a.test.evil.test", false},
		{"anna@a.test", "anna@a.test ", false},
		{"nik@a.test", "ni\u212a@a.test", false}, // the kelvin sign, which Unicode folds to k
		{"", "", true},
	} {
		if got := integration.SameAddress(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: got %t, want %t", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestAuthHostsAreSeparatedByCommasAndSpaces(t *testing.T) {
	for setting, want := range map[string][]string{
		"": {}, "a.example": {"a.example"}, "a.example,b.example": {"a.example", "b.example"}, " a.example, b.example\tc.example,": {"a.example", "b.example", "c.example"},
	} {
		if got := integration.SplitAuthHosts(setting); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", setting, got, want)
		}
	}
}
