// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/plugins/wire"
)

func TestPasswordsInURLsAreNotShown(t *testing.T) {
	for databaseURL, want := range map[string]string{
		"postgres://h/x?password=p&a=b": "postgres://h/x?a=b&password=[redacted]",
		"postgres://h/x?password=p;q":   "postgres://h/x?[redacted]",
		"postgres://a:p@[/x":            redacted,
		"sqlite:///x/tenantry.db":       "sqlite:///x/tenantry.db",
		"sqlite:///a@b/tenantry.db":     "sqlite:///a@b/tenantry.db",

		"postgres:///x?host=/run/postgresql": "postgres:///x?host=/run/postgresql",

		"host=db user=ann password=s3cret dbname=x": redacted,
		"default:s3cret@redis:6379/0":               redacted,
		"redis:s3cret@h:6379":                       redacted,
		"ann:s3cret@db/x":                           redacted,
		"//ann:s3cret@db/x":                         redacted,
		"postgres:ann:s3cret@db/x":                  redacted,
		"postgres:/ann:s3cret@db/x":                 redacted,
		"postgres:///ann:s3cret@db/x":               redacted,
		"postgres://ann:12/s3cret@db/x":             redacted,
		"postgres://ann:12?s3cret@db/x":             redacted,
		"postgres://ann:12#s3cret@db/x":             redacted,
	} {
		if got := redactURL(databaseURL); got != want {
			t.Errorf("%s is shown as %s, want %s", databaseURL, got, want)
		}
	}
}

// TestMisplacedSecretsOfProvidersAreNotShown checks that the value of a setting is not shown if the
// setting has the name of a secret field, or if its name looks like that of a secret. Without a
// catalog, the fields of the plugin are unknown.
func TestMisplacedSecretsOfProvidersAreNotShown(t *testing.T) {
	reading := settings.Reading{Config: settings.Config{Providers: map[string]map[string]string{
		"acme": {"api_key": "s3cret", "signature": "s3cret", "credential": "s3cret", "api_key_file": "/path", "region": "eu"},
	}}}
	described := map[string]wire.Description{"acme": {Fields: []wire.Field{
		{Name: "api_key", Secret: true, Account: true}, {Name: "signature", Secret: true, Account: true}, {Name: "region"},
	}}}
	for _, tc := range []struct {
		name         string
		descriptions map[string]wire.Description
		want         map[string]string
	}{
		{"with the catalog", described, map[string]string{
			"api_key": redacted, "signature": redacted, "credential": redacted, "api_key_file": "/path", "region": "eu",
		}},
		{"without a catalog", nil, map[string]string{
			"api_key": redacted, "signature": "s3cret", "credential": redacted, "api_key_file": "/path", "region": "eu",
		}},
	} {
		rows := providerRows(reading, tc.descriptions, nil)
		if len(rows) != len(tc.want) {
			t.Errorf("%s: got the rows %+v, want %d", tc.name, rows, len(tc.want))
		}
		for _, row := range rows {
			if name := strings.TrimPrefix(row.Name, "providers.acme."); row.Value != tc.want[name] {
				t.Errorf("%s: %s is shown as %q, want %q", tc.name, name, row.Value, tc.want[name])
			}
		}
	}
}

// TestPasswordsInOtherURLsAreNotShown checks settings that should contain no password: a setting of
// the service, a described setting of a provider, and an unknown one.
func TestPasswordsInOtherURLsAreNotShown(t *testing.T) {
	const address, want = "https://ann:s3cret@mail.example", "https://ann:[redacted]@mail.example"
	reading := settings.Reading{Config: settings.Config{PublicURL: address, Providers: map[string]map[string]string{
		"acme": {"base_url": address, "proxy": address},
	}}}
	described := map[string]wire.Description{"acme": {Fields: []wire.Field{{Name: "base_url"}}}}
	shown := 0
	for _, row := range append(settingRows(reading), providerRows(reading, described, nil)...) {
		if row.Name == "public_url" || strings.HasPrefix(row.Name, "providers.acme.") {
			shown++
			if row.Value != want {
				t.Errorf("%s is shown as %q, want %q", row.Name, row.Value, want)
			}
		}
	}
	if shown != 3 {
		t.Errorf("%d of the settings are shown, want 3", shown)
	}
}

// TestSettingsOfUndescribedPluginAreNotUnknown checks the sources of settings while one of two
// plugins cannot describe itself. Only the settings of a provider without a plugin are unknown.
func TestSettingsOfUndescribedPluginAreNotUnknown(t *testing.T) {
	reading := settings.Reading{Config: settings.Config{Providers: map[string]map[string]string{"broken": {"region": "eu"}, "absent": {"region": "eu"}}}}
	for _, row := range providerRows(reading, map[string]wire.Description{"acme": {}}, []string{"broken"}) {
		if isUnknown := strings.HasSuffix(row.Source, ", unknown"); isUnknown != strings.HasPrefix(row.Name, "providers.absent.") {
			t.Errorf("%s has the source %q", row.Name, row.Source)
		}
	}
}

// TestSettingsThatHoldSecretsAreMarked checks the names of the settings. It is for future settings:
// today no setting has a name that looks like a secret.
func TestSettingsThatHoldSecretsAreMarked(t *testing.T) {
	for field := range settings.Fields() {
		if name := field.Tag.Get("koanf"); isSecretName(name) && field.Tag.Get("secret") == "" {
			t.Errorf("the name %s looks like a secret, want the tag secret", name)
		}
	}
}
