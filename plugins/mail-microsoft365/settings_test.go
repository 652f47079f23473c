// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func TestDescriptionIsComplete(t *testing.T) {
	definition := plugin()
	if definition.Describe.Name != "microsoft365" || definition.Describe.Kind != "mail" || definition.Describe.Title == "" || definition.Describe.Version == "" ||
		len(definition.Describe.Budgets) == 0 || definition.Mail == nil || definition.Simulator == nil {
		t.Fatalf("the name, kind, title, version, budgets, Mail or Simulator is missing or wrong: %+v", definition)
	}
	// Microsoft's quota of the message trace is 100 requests in five minutes.
	traceBudget := sdk.Budget{Key: "tenant", Limit: 100, Window: 5 * time.Minute, Only: []string{"sent"}}
	if !slices.ContainsFunc(definition.Describe.Budgets, func(budget sdk.Budget) bool { return cmp.Equal(budget, traceBudget) }) {
		t.Errorf("the budgets %+v do not contain %+v", definition.Describe.Budgets, traceBudget)
	}
	for _, field := range definition.Describe.Fields {
		if field.Name == "" || field.Help == "" || (field.Secret && field.Default != "") {
			t.Errorf("the field has no name or help, or is secret with a default: %+v", field)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		settings   map[string]string
		secrets    map[string]secret.Text
		isAccepted bool
	}{
		"required settings only": {map[string]string{"client_id": "c"}, map[string]secret.Text{"client_secret": secret.New("s")}, true},
		"no client":              {nil, map[string]secret.Text{"client_secret": secret.New("s")}, false},
		"no credential":          {map[string]string{"client_id": "c"}, nil, false},
		"bad certificate":        {map[string]string{"client_id": "c"}, map[string]secret.Text{"client_certificate": secret.New("x")}, false},
		"bad address":            {map[string]string{"client_id": "c", "graph_url": "graph"}, map[string]secret.Text{"client_secret": secret.New("s")}, false},
		"bad scheme":             {map[string]string{"client_id": "c", "login_url": "ftp://x"}, map[string]secret.Text{"client_secret": secret.New("s")}, false},
		"bad pacing":             {map[string]string{"client_id": "c", "pacing": "slow"}, map[string]secret.Text{"client_secret": secret.New("s")}, false},
		"pacing is NaN":          {map[string]string{"client_id": "c", "pacing": "NaN"}, map[string]secret.Text{"client_secret": secret.New("s")}, false},
	} {
		_, err := plugin().Mail(sdk.Connection{Settings: tc.settings, Secrets: tc.secrets})
		if (err == nil) != tc.isAccepted || (err != nil && !errors.Is(err, fault.ServiceUnavailable)) {
			t.Errorf("%s: %v, want accepted: %v", name, err, tc.isAccepted)
		}
	}
}

func TestSettingsHaveDefaults(t *testing.T) {
	given := map[string]string{"client_id": "c", "exchange_url": " https://outlook.office365.us/ "}
	unchanged := maps.Clone(given)
	got, err := readSettings(sdk.Connection{Settings: given, Secrets: map[string]secret.Text{"client_secret": secret.New("s")}})
	if err != nil || !maps.Equal(given, unchanged) {
		t.Fatalf("readSettings: %v with the settings %v, want no error and the unchanged settings %v", err, given, unchanged)
	}
	if got.loginURL != "https://login.microsoftonline.com" || got.graphURL != "https://graph.microsoft.com/v1.0" ||
		got.exchangeURL != "https://outlook.office365.us" || got.graphScope != "https://graph.microsoft.com/.default" ||
		got.exchangeScope != "https://outlook.office365.com/.default" || got.cmdletsPerSecond != 1 {
		t.Fatalf("a default is missing or wrong: %+v", got)
	}
}
