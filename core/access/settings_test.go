// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

func TestSettingsAreNormalizedOrRefused(t *testing.T) {
	got, err := access.Settings{
		DisplayName: "  Acme Mail ", SupportURL: "mailto:help@acme.example", ReturnHosts: []string{"App.Acme.example", "acme.example:8443", "app.acme.example", "bücher.example", "[2001:db8::1]:8443", "192.0.2.1"},
	}.Normalized()
	if err != nil || got.DisplayName != "Acme Mail" || !slices.Equal(got.ReturnHosts, []string{"192.0.2.1", "[2001:db8::1]:8443", "acme.example:8443", "app.acme.example", "bücher.example"}) {
		t.Errorf("got %+v, %v; want the trimmed name, and sorted hosts in lower case", got, err)
	}
	if _, err := (access.Settings{}).Normalized(); err != nil {
		t.Errorf("empty settings: got %v, want no error", err)
	}
	for name, settings := range map[string]access.Settings{
		"long name":                            {DisplayName: strings.Repeat("x", 101)},
		"name with a line end":                 {DisplayName: "a\nb"},
		"name that reverses the text after it": {DisplayName: "a\u202eb"},
		"script as the support URL":            {SupportURL: "javascript:alert(1)"},
		"support URL with plain http":          {SupportURL: "http://acme.example"},
		"support URL without a host":           {SupportURL: "https:///x"},
		"support URL with a user":              {SupportURL: "https://u:p@acme.example"},
		"mailto without an address":            {SupportURL: "mailto:help"},
		"host is a URL":                        {ReturnHosts: []string{"https://acme.example"}},
		"host with a path":                     {ReturnHosts: []string{"acme.example/x"}},
		"host with a user":                     {ReturnHosts: []string{"u@acme.example"}},
		"two hosts in one":                     {ReturnHosts: []string{"a.example,b.example"}},
		"empty host":                           {ReturnHosts: []string{""}},
		"only a port":                          {ReturnHosts: []string{":8443"}},
		"host with an empty port":              {ReturnHosts: []string{"acme.example:"}},
		"port 0":                               {ReturnHosts: []string{"acme.example:0"}},
		"port 65536":                           {ReturnHosts: []string{"acme.example:65536"}},
		"host with a wildcard":                 {ReturnHosts: []string{"*.acme.example"}},
		"host with an empty label":             {ReturnHosts: []string{"acme..example"}},
		"no IPv6 address in brackets":          {ReturnHosts: []string{"[acme.example]"}},
		"21 hosts":                             {ReturnHosts: slices.Repeat([]string{"a.example"}, 21)},
	} {
		if _, err := settings.Normalized(); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: got %v, want invalid_request", name, err)
		}
	}
}

func TestReturnURLNeedsARegisteredHost(t *testing.T) {
	settings := access.Settings{ReturnHosts: []string{"[2001:db8::1]", "app.acme.example", "other.example:8443"}}
	for _, allowed := range []string{
		"https://app.acme.example", "https://APP.acme.example/done?x=1", "https://app.acme.example:8443/", "https://other.example:8443/",
		"https://[2001:db8::1]:444/x",
	} {
		if err := settings.CheckReturnURL(allowed); err != nil {
			t.Errorf("%q: got %v, want no error", allowed, err)
		}
	}
	for _, refused := range []string{
		"", "x", "http://app.acme.example/", "https://evil.example/", "https://app.acme.example.evil.example/", "https://evil.example/app.acme.example",
		"https://app.acme.example@evil.example/", "https://u@app.acme.example/", "https://app.acme.example\\@evil.example/", "//app.acme.example/",
		"https:app.acme.example", "https://other.example/", "https://other.example:8444/", "https://app.acme.example/#x", "https://app.acme.example/#",
		"https://app.acme.example/?a=%zz", "https://app.acme.example/" + strings.Repeat("x", 2048), "javascript:alert(1)", "https://app.acme.example/\n",
	} {
		if err := settings.CheckReturnURL(refused); !errors.Is(err, fault.InvalidReturnURL) {
			t.Errorf("%q: got %v, want invalid_return_url", refused, err)
		}
	}
	if err := (access.Settings{}).CheckReturnURL("https://app.acme.example/"); !errors.Is(err, fault.InvalidReturnURL) {
		t.Errorf("no host registered: got %v, want invalid_return_url", err)
	}
}
