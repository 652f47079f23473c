// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestProblemOfAnUnknownSettingNamesSimilarSettings checks the problems of misspelt providers and
// settings, and that a plugin without a description causes no problem.
func TestProblemOfAnUnknownSettingNamesSimilarSettings(t *testing.T) {
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
		t.Errorf("the problems (-want +got):\n%s", diff)
	}
}

// TestFactsOfAnUpgradedPluginAreRead checks that Facts returns the facts of the new version after
// the mail platform's plugin was upgraded. Until then, Facts reads the description of the plugin
// once.
func TestFactsOfAnUpgradedPluginAreRead(t *testing.T) {
	administrator, reads := "Global Admin", 0
	cache := &descriptionCache{byName: map[string]wire.Description{}}
	cache.read = func(_ context.Context, name string) (wire.Description, error) {
		reads++
		return wire.Description{Name: name, MailPlatform: platform.Facts{Administrator: administrator}}, nil
	}
	facts := &platformFacts{describe: cache.describe, name: "microsoft365"}
	expectAdministrator := func(want string, wantReads int) {
		t.Helper()
		if got, err := facts.Facts(t.Context()); err != nil || got.Administrator != want || reads != wantReads {
			t.Errorf("the administrator is %q after %d reads, %v, want %q after %d reads", got.Administrator, reads, err, want, wantReads)
		}
	}
	expectAdministrator("Global Admin", 1)
	administrator = "Global Administrator"
	expectAdministrator("Global Admin", 1)
	cache.forget("microsoft365")
	expectAdministrator("Global Administrator", 2)
}
