// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// flags returns the flags of a command that reads a settings file with this content.
func flags(t *testing.T, content string) *pflag.FlagSet {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenantry.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	Config{}.AddFlags(set)
	if err := set.Set("config", file); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestValueOfWrongTypeNamesSettingAndWhatIsAccepted checks that the error of a value names the
// setting, the value, its source and what is accepted.
func TestValueOfWrongTypeNamesSettingAndWhatIsAccepted(t *testing.T) {
	for content, says := range map[string]string{
		"drain_time: 5 minutes": `drain_time: "5 minutes" is not a time; write a number with a unit, such as 30s or 5m (set in the settings file)`,
		"drain_time: 25":        `drain_time: "25" is not a time`,
		"worker: maybe":         `worker: "maybe" is neither true nor false`,
		"worker:":               `worker: "" is neither true nor false`,
		"max_in_flight: many":   `max_in_flight: "many" is not a whole number, such as 10`,
		"max_in_flight: 1.5":    `max_in_flight: "1.5" is not a whole number`,
		"listen: [a, b]":        `listen: must be one value, not a list`,
		"providers: {cloudflare: {api_url: [a, b]}}": `providers.cloudflare.api_url: must be one value, not a list`,
	} {
		if _, err := Read(flags(t, content), nil); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", content, err)
		}
	}
	set := flags(t, "drain_delay: 0\nworker: \"false\"\nmax_in_flight: \"7\"\nproviders: {cloudflare: {api_url: 1}}")
	if r, err := Read(set, nil); err != nil || r.Config.DrainDelay != 0 || r.Config.Worker || r.Config.MaxInFlight != 7 {
		t.Errorf("valid values: %+v, %v", r.Config, err)
	}
	if err := set.Set("drain-time", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(set, nil); err == nil || !strings.HasSuffix(err.Error(), "(set by --drain-time)") {
		t.Errorf("a flag: %v", err)
	}
	t.Setenv("TENANTRY_WORKER", "maybe")
	if _, err := Read(flags(t, ""), nil); err == nil || !strings.HasSuffix(err.Error(), "is neither true nor false (set by TENANTRY_WORKER)") {
		t.Errorf("a variable: %v", err)
	}
}

// TestMisspeltVariablesAreRefused checks that a variable is refused if it was probably meant as a
// setting, and that other variables are not.
func TestMisspeltVariablesAreRefused(t *testing.T) {
	for name, says := range map[string]string{
		"TENANTRY_DATABSE_URL":                   "did you mean TENANTRY_DATABASE_URL?",
		"TENANTRY_REDIS":                         "did you mean TENANTRY_REDIS_URL?",
		"TENANTRY_PROVIDERS":                     "TENANTRY_PROVIDERS_PROVIDER_SETTING",
		"TENANTRY_PROVIDERS_MICROSOFT365":        "TENANTRY_PROVIDERS_PROVIDER_SETTING",
		"TENANTRY_IMAGE_REVISION":                "",
		"TENANTRY_PROVIDERS_MICROSOFT356_SECRET": "", // only the catalog of plugins has the names of providers
		"TENANTRY_SERVICE_HOST":                  "",
	} {
		err := misspeltVariable([]string{name + "=x"})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDatabaseURLIsChecked checks that a URL of no database is refused without being quoted.
func TestDatabaseURLIsChecked(t *testing.T) {
	_, err := Load(flags(t, "database_url: mysql://ann:s3cret@h/x"), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "database_url: ") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}
