// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"github.com/tenantry/tenantry/app/settings"
)

func TestPasswordsInURLsAreNotShown(t *testing.T) {
	for databaseURL, want := range map[string]string{
		"postgres://h/x?password=p&a=b": "postgres://h/x?a=b&password=[redacted]",
		"postgres://h/x?password=p;q":   "postgres://h/x?[redacted]",
		"postgres://a:p@[/x":            redacted,
		"sqlite:///x/tenantry.db":       "sqlite:///x/tenantry.db",
	} {
		if got := redactURL(databaseURL); got != want {
			t.Errorf("%s is shown as %s, want %s", databaseURL, got, want)
		}
	}
}

func TestSettingsThatHoldSecretsAreMarked(t *testing.T) {
	for field := range settings.Fields() {
		if name := field.Tag.Get("koanf"); isSecretName(name) && field.Tag.Get("secret") == "" {
			t.Errorf("%s looks like a secret and is not marked as one", name)
		}
	}
}
