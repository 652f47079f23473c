// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// newFlags returns the flags of a command that reads a settings file with this content.
func newFlags(t *testing.T, content string) *pflag.FlagSet {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenantry.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Config{}.AddFlags(flags)
	if err := flags.Set("config", file); err != nil {
		t.Fatal(err)
	}
	return flags
}

// TestValueOfWrongTypeNamesSettingAndWhatIsAccepted checks the error about a value of the wrong
// type, and that values of the right type are accepted.
func TestValueOfWrongTypeNamesSettingAndWhatIsAccepted(t *testing.T) {
	for content, want := range map[string]string{
		"drain_time: 5 minutes": `drain_time: "5 minutes" is not a time; write a number with a unit, such as 30s or 5m (set in the settings file)`,
		"drain_time: 25":        `drain_time: "25" is not a time`,
		"worker: maybe":         `worker: "maybe" is neither true nor false`,
		"worker:":               `worker: "" is neither true nor false`,
		"max_in_flight: many":   `max_in_flight: "many" is not a whole number, such as 10`,
		"max_in_flight: 1.5":    `max_in_flight: "1.5" is not a whole number`,
		"listen: [a, b]":        `listen: must be one value, not a list`,
		"providers: {cloudflare: {api_url: [a, b]}}": `providers.cloudflare.api_url: must be one value, not a list`,
	} {
		if _, err := Read(newFlags(t, content), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that begins with %q", content, err, want)
		}
	}
	flags := newFlags(t, "drain_delay: 0\nworker: \"false\"\nmax_in_flight: \"7\"\nproviders: {cloudflare: {api_url: 1}}")
	if loaded, err := Read(flags, nil); err != nil || loaded.Config.DrainDelay != 0 || loaded.Config.Worker || loaded.Config.MaxInFlight != 7 {
		t.Errorf("valid values: got %+v, %v, want the values of the file", loaded.Config, err)
	}
	if err := flags.Set("drain-time", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(flags, nil); err == nil || !strings.HasSuffix(err.Error(), "(set by --drain-time)") {
		t.Errorf("an invalid flag: %v, want an error that names the flag", err)
	}
	t.Setenv("TENANTRY_WORKER", "maybe")
	if _, err := Read(newFlags(t, ""), nil); err == nil || !strings.HasSuffix(err.Error(), "is neither true nor false (set by TENANTRY_WORKER)") {
		t.Errorf("an invalid variable: %v, want an error that names the variable", err)
	}
}

// TestMisspeltVariablesAreRefused checks that a variable is refused if it was probably meant as a
// setting, and that other variables are not.
func TestMisspeltVariablesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"TENANTRY_DATABSE_URL":                   "did you mean TENANTRY_DATABASE_URL?",
		"TENANTRY_REDIS":                         "did you mean TENANTRY_REDIS_URL?",
		"TENANTRY_PROVIDERS":                     "TENANTRY_PROVIDERS_PROVIDER_SETTING",
		"TENANTRY_PROVIDERS_MICROSOFT365":        "TENANTRY_PROVIDERS_PROVIDER_SETTING",
		"TENANTRY_IMAGE_REVISION":                "",
		"TENANTRY_PROVIDERS_MICROSOFT356_SECRET": "", // only the catalog of plugins has the names of providers
		"TENANTRY_SERVICE_HOST":                  "", // Kubernetes sets it for a Service with the name tenantry
	} {
		err := misspeltVariable([]string{name + "=x"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want an error with %q, or none if this is empty", name, err, want)
		}
	}
}

// TestKubernetesServiceSetsNoPort checks that the address that Kubernetes sets for a service with
// the name tenantry-dns does not set dns_port.
func TestKubernetesServiceSetsNoPort(t *testing.T) {
	t.Setenv("TENANTRY_DNS_PORT", "tcp://10.0.0.1:53")
	loaded, err := Read(newFlags(t, ""), nil)
	if err != nil || loaded.Config.DNSPort != 53 {
		t.Errorf("got port %d, %v, want the default 53", loaded.Config.DNSPort, err)
	}
}

// TestDatabaseURLIsChecked checks that the URL of an unsupported database is refused, and so is a
// malformed URL. The error does not show the password.
func TestDatabaseURLIsChecked(t *testing.T) {
	for _, url := range []string{"mysql://ann:s3cret@h/x", "postgres://ann:s3cret%zz@h/x", "postgres://ann:s3cret@h/x?sslmode=maybe", "sqlite:x", "sqlite://"} {
		_, err := Load(newFlags(t, "database_url: "+url), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "database_url: ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error about database_url without the password", url, err)
		}
	}
}

// TestMissingFileOfDatabaseURLIsNamed checks that the error about a missing certificate file names
// the file. The error does not mention a password.
func TestMissingFileOfDatabaseURLIsNamed(t *testing.T) {
	_, err := Load(newFlags(t, "database_url: postgres://ann:s3cret@h/x?sslmode=verify-full&sslrootcert=/missing.pem"), nil)
	if err == nil || !strings.Contains(err.Error(), "/missing.pem") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "password") {
		t.Errorf("got %v, want an error that names the file only", err)
	}
}

// TestSQLiteURLMayHaveFourSlashes checks that the form sqlite:////path, which other tools use for
// an absolute path, is accepted and stored with three slashes.
func TestSQLiteURLMayHaveFourSlashes(t *testing.T) {
	c, err := Load(newFlags(t, "database_url: sqlite:////var/lib/tenantry.db"), nil)
	if want := "sqlite:///var/lib/tenantry.db"; err != nil || c.DatabaseURL != want {
		t.Errorf("got %s, %v, want %s", c.DatabaseURL, err, want)
	}
}

func TestPublicURLHasNoFinalSlash(t *testing.T) {
	c, err := Load(newFlags(t, "public_url: https://mail.example/api//"), nil)
	if want := "https://mail.example/api"; err != nil || c.PublicURL != want {
		t.Errorf("got %s, %v, want %s", c.PublicURL, err, want)
	}
}

// TestListIsTextWithCommasOrAYAMLList checks both forms of a list in the settings file. It also
// checks the form with commas in a variable and in a flag.
func TestListIsTextWithCommasOrAYAMLList(t *testing.T) {
	want := []string{"192.0.2.1:53", "192.0.2.2:53"}
	requireResolvers := func(source string, flags *pflag.FlagSet) {
		t.Helper()
		loaded, err := Load(flags, nil)
		if err != nil || !slices.Equal(loaded.DNSResolvers, want) {
			t.Errorf("%s: got %q, %v, want %q", source, loaded.DNSResolvers, err, want)
		}
	}
	requireResolvers("text in the file", newFlags(t, `dns_resolvers: "192.0.2.1:53, 192.0.2.2:53"`))
	requireResolvers("a list in the file", newFlags(t, `dns_resolvers: ["192.0.2.1:53", "192.0.2.2:53"]`))
	flags := newFlags(t, "")
	if err := flags.Set("dns-resolvers", "192.0.2.1:53,192.0.2.2:53"); err != nil {
		t.Fatal(err)
	}
	requireResolvers("a flag", flags)
	t.Setenv("TENANTRY_DNS_RESOLVERS", "192.0.2.1:53,192.0.2.2:53")
	requireResolvers("a variable", newFlags(t, ""))
}

// TestEmptySectionsOfProvidersAreAccepted checks that the settings of providers, or of one
// provider, can all be commented out. Variables can still set them.
func TestEmptySectionsOfProvidersAreAccepted(t *testing.T) {
	t.Setenv("TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID", "from-variable")
	for _, content := range []string{
		"providers:\n  # microsoft365:\n", "providers: {}", "providers:\n  microsoft365:\n    # client_id: x\n", "providers: {microsoft365: {}}",
		"providers:\n  cloudflare:\n  microsoft365:\n    client_id: from-file\n",
	} {
		loaded, err := Read(newFlags(t, content), nil)
		if got := loaded.Config.Providers; err != nil || len(got) != 1 || got["microsoft365"]["client_id"] != "from-variable" {
			t.Errorf("%q: got %v, %v, want only the setting of the variable", content, got, err)
		}
	}
}
