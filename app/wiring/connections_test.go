// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestUnknownProviderSettingsAreNamedWithTheNearest checks the errors about misspelt providers and
// settings, and that a plugin without a description causes no error.
func TestUnknownProviderSettingsAreNamedWithTheNearest(t *testing.T) {
	description := wire.Description{Name: "microsoft365", Title: "Microsoft 365", Fields: []wire.Field{
		{Name: "client_id"}, {Name: "client_secret", Secret: true}, {Name: "tenant", Account: true},
	}}
	describe := func(provider string) (wire.Description, error) {
		if provider == "broken" {
			return wire.Description{}, errors.New("it does not start")
		}
		return description, nil
	}
	configured := map[string]map[string]string{
		"microsoft365": {"client_id": "x", "client_secret_file": "x", "client_secret": "x", "zzz": "x", "tenant": "x"},
		"microsoft356": {"client_id": "x"},
		"other":        {"client_id": "x"},
		"broken":       {"anything": "x"},
	}
	want := []settings.Problem{
		{Setting: "providers.microsoft356", Text: "there is no plugin of a provider with this name; did you mean providers.microsoft365 (TENANTRY_PROVIDERS_MICROSOFT365_…)?"},
		{Setting: "providers.microsoft365.client_secret", Text: "Microsoft 365 has no such setting; did you mean client_secret_file (TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE)?"},
		{Setting: "providers.microsoft365.tenant", Text: "Microsoft 365 has no such setting; its settings are client_id, client_secret_file"},
		{Setting: "providers.microsoft365.zzz", Text: "Microsoft 365 has no such setting; its settings are client_id, client_secret_file"},
		{Setting: "providers.other", Text: "there is no plugin of a provider with this name; the plugins are broken, microsoft365"},
	}
	if diff := cmp.Diff(want, ProviderSettingProblems(configured, []string{"broken", "microsoft365"}, describe)); diff != "" {
		t.Error(diff)
	}
}
