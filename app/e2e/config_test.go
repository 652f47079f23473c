// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/doctor"
	"github.com/tenantry/tenantry/app/settings"
)

// shownSettings returns the settings that `tenantry config` has printed, keyed by name.
func shownSettings(t *testing.T, result commandResult) map[string]object {
	t.Helper()
	byName := map[string]object{}
	printed := result.mustJSON(t)
	checkMembers(t, "config", printed, "settings count")
	for _, s := range printed.objects("settings") {
		checkMembers(t, "setting", s, "name value source variable flag")
		byName[s.text("name")] = s
	}
	return byName
}

// TestConfigShowsTheSourceOfEachValue checks that each source overrides the previous one: default,
// file, variable, flag.
func TestConfigShowsTheSourceOfEachValue(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tenantry.yaml")
	yaml := "listen: 127.0.0.1:1\nadmin_listen: 127.0.0.1:1\nkey_prefix: abc\ndns_resolvers: [\"192.0.2.1:53\", \"192.0.2.2:53\"]\n" +
		"providers:\n  microsoft365:\n    client_id: from-file\n    pacing: 3\n"
	must(t, os.WriteFile(file, []byte(yaml), 0o600))
	env := []string{onePluginPerKindEnv(t), "TENANTRY_LISTEN=127.0.0.1:2", "TENANTRY_ADMIN_LISTEN=127.0.0.1:2", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=from-variable"}
	shown := shownSettings(t, runTenantry(t, env, "config", "--config", file, "--listen", "127.0.0.1:3", "-o", "json"))
	for name, want := range map[string][2]string{
		"log_level":                              {"info", "default"},
		"key_prefix":                             {"abc", "file"},
		"dns_resolvers":                          {"192.0.2.1:53,192.0.2.2:53", "file"},
		"admin_listen":                           {"127.0.0.1:2", "variable"},
		"listen":                                 {"127.0.0.1:3", "flag"},
		"redis_url":                              {"", "default"},
		"providers.microsoft365.pacing":          {"3", "file"},
		"providers.microsoft365.client_id":       {"from-variable", "variable"},
		"providers.microsoft365.graph_url":       {"https://graph.microsoft.com", "default"},
		"providers.microsoft365.no_such_setting": {"", ""},
	} {
		if s := shown[name]; s.text("value") != want[0] || s.text("source") != want[1] {
			t.Errorf("the setting %s is %v, want the value and source %v", name, s, want)
		}
	}
	for field := range settings.Fields() {
		if _, ok := shown[field.Tag.Get("koanf")]; !ok && field.Name != "Providers" {
			t.Errorf("config does not show the setting %s", field.Name)
		}
	}
	table := runTenantry(t, env, "config")
	if !strings.HasPrefix(table.stdout, "SETTING") || table.code != 0 || table.stderr != "" {
		t.Errorf("config: exit code %d, want 0 and only a table on standard output: %s%s", table.code, table.stdout, table.stderr)
	}
}

func TestConfigRedactsSecrets(t *testing.T) {
	t.Parallel()
	const secret = "canary-5c1d"
	env := []string{
		onePluginPerKindEnv(t),
		"TENANTRY_DATABASE_URL=postgres://ann:" + secret + "@db.example/x?sslmode=require&sslpassword=" + secret,
		"TENANTRY_REDIS_URL=rediss://:" + secret + "@redis.example/0",
		"TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET=" + secret,
	}
	notURLEnv := []string{
		onePluginPerKindEnv(t),
		"TENANTRY_DATABASE_URL=host=db.example user=ann password=" + secret,
		"TENANTRY_REDIS_URL=default:" + secret + "@redis.example:6379/0",
	}
	for _, format := range []string{"text", "json"} {
		result := runTenantry(t, env, "config", "-o", format)
		if strings.Contains(result.stdout+result.stderr, secret) {
			t.Errorf("config shows a secret:\n%s%s", result.stdout, result.stderr)
		}
		for _, want := range []string{"ann:[redacted]@db.example", "rediss://:[redacted]@redis.example/0", "variable, unknown"} {
			if !strings.Contains(result.stdout, want) {
				t.Errorf("the output lacks %s:\n%s", want, result.stdout)
			}
		}
		result = runTenantry(t, notURLEnv, "config", "-o", format)
		if result.code != cli.ExitUsage || strings.Contains(result.stdout+result.stderr, secret) {
			t.Errorf("with addresses that are not URLs: exit code %d, want %d and no secret:\n%s%s", result.code, cli.ExitUsage, result.stdout, result.stderr)
		}
	}
}

// TestMisspeltSettingsAreReported checks that an unknown name is an error in the file. In the
// environment it is an error if it is similar to a setting, and otherwise a warning.
func TestMisspeltSettingsAreReported(t *testing.T) {
	t.Parallel()
	for text, wantText := range map[string]string{
		"databse_url: x\n":                         `"databse_url"; did you mean database_url?`,
		"nonsense: 1\n":                            `"nonsense"`,
		"providers:\n  microsoft365: x\n":          `"providers.microsoft365"`,
		"providers:\n  a:\n    b:\n      c: x\n":   `"providers.a.b.c"`,
		"dns_resolvers:\n  first: 192.0.2.1:53\n":  `"dns_resolvers.first"`,
		"listen: 127.0.0.1:0\nLISTEN: 127.0.0.1\n": `"LISTEN"`,
	} {
		file := filepath.Join(t.TempDir(), "tenantry.yaml")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		result := runTenantry(t, nil, "account", "list", "--config", file)
		result.checkFailure(t, cli.ExitUsage)
		if !strings.Contains(result.stderr, wantText) {
			t.Errorf("the file %q: the error lacks %s: %s", text, wantText, result.stderr)
		}
	}
	for _, args := range [][]string{{"account", "list"}, {"config"}, {"doctor"}, {"serve"}, {"dev"}} {
		result := runTenantry(t, []string{"TENANTRY_DATABSE_URL=x"}, args...)
		result.checkFailure(t, cli.ExitUsage)
		if !strings.Contains(result.stderr, "TENANTRY_DATABSE_URL: ") || !strings.Contains(result.stderr, "did you mean TENANTRY_DATABASE_URL?") {
			t.Errorf("%v: the error lacks the misspelt or the correct name: %s", args, result.stderr)
		}
	}
	result := runTenantry(t, []string{"TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_IMAGE_REVISION=x"}, "migrate")
	if result.code != 0 || !strings.Contains(result.stderr, "TENANTRY_IMAGE_REVISION is not a setting and has no effect") {
		t.Errorf("migrate: exit code %d, want 0 and a warning about TENANTRY_IMAGE_REVISION: %s", result.code, result.stderr)
	}
	result = runTenantry(t, []string{"TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_IMAGE_REVISION=x"}, "migrate", "-o", "json")
	var printed object
	if err := json.Unmarshal([]byte(result.stderr), &printed); err != nil {
		t.Fatalf("the warning is not JSON: %v: %s", err, result.stderr)
	}
	checkValues(t, printed, object{"warning.code": "unknown_variable"})
}

func TestServeLogsUnknownVariables(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	p, _ := fixture.serve(append(fixture.env(t.TempDir(), ""), "TENANTRY_IMAGE_REVISION=x"))
	if logs := p.logs.String(); !strings.Contains(logs, `"variable":"TENANTRY_IMAGE_REVISION"`) || strings.Contains(logs, "tenantry: warning") {
		t.Errorf("the log lacks the unknown variable, or has a warning that is not a log entry:\n%s", logs)
	}
}

// TestMisspeltProviderSettingsAreRefused checks that serve does not start with a setting that no
// plugin has. Serve and doctor name the provider or the setting that was probably meant, or all
// settings of the plugin.
func TestMisspeltProviderSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for variable, wantText := range map[string]string{
		"TENANTRY_PROVIDERS_MICROSOFT356_CLIENT_ID=x":     "did you mean providers.microsoft365 (TENANTRY_PROVIDERS_MICROSOFT365_…)?",
		"TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET=x": "did you mean client_secret_file (TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE)?",
		"TENANTRY_PROVIDERS_CLOUDFLARE_ZZZ=x":             "its settings are api_url",
	} {
		env := []string{onePluginPerKindEnv(t), "TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", variable}
		failedServe := runTenantry(t, env, "serve")
		failedServe.checkUsageAfterLog(t, wantText)
		_, checks := runDoctor(t, env)
		checkValues(t, checks["provider_settings"], object{"status": doctor.Failed})
		if summary := checks["provider_settings"].text("summary"); !strings.Contains(summary, wantText) {
			t.Errorf("%s: the summary of doctor is %q, want %q in it", variable, summary, wantText)
		}
	}
}

// checkUsageAfterLog checks that serve failed with a usage error that contains wantText. The
// error follows the log on standard error.
func (r commandResult) checkUsageAfterLog(t *testing.T, wantText string) {
	t.Helper()
	if r.code != cli.ExitUsage || r.stdout != "" || !strings.Contains(r.stderr, "tenantry: providers.") || !strings.Contains(r.stderr, wantText) {
		t.Errorf("%v: exit code %d, want a usage error with the text %q\n%s%s", r.args, r.code, wantText, r.stdout, r.stderr)
	}
}

func TestServeSaysThatNoMailPlatformIsConfigured(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	p, _ := fixture.serve([]string{"TENANTRY_DATA_DIR=" + t.TempDir(), "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_DRAIN_DELAY=0s"})
	if logs := p.logs.String(); !strings.Contains(logs, "no mail platform is configured: no tenant can be connected") {
		t.Errorf("the log does not say that no tenant can be connected:\n%s", logs)
	}
}

// TestConfigShowsSettingsWithSecretNames checks that a setting is shown if it is not a secret,
// although its name contains the word password.
func TestConfigShowsSettingsWithSecretNames(t *testing.T) {
	t.Parallel()
	got := shownSettings(t, runTenantry(t, []string{allPlugins}, "config", "-o", "json"))
	if s := got["providers.plusvibe.allow_password_credentials"]; s.text("value") != "false" {
		t.Errorf("allow_password_credentials is shown as %v, want the value false", s)
	}
}

func TestOnlyUnknownVariablesAreReported(t *testing.T) {
	t.Parallel()
	accepted := []string{
		"TENANTRY_URL=http://127.0.0.1:8080", "TENANTRY_KEY=k", "TENANTRY_SOAK=1", "TENANTRY_TEST_POSTGRES_URL=x", "PATH=/bin",
		"TENANTRY_SERVICE_HOST=10.0.0.1", "TENANTRY_SERVICE_PORT=8080", "TENANTRY_SERVICE_PORT_HTTP=8080", "TENANTRY_PORT=tcp://10.0.0.1:8080",
		"TENANTRY_PORT_8080_TCP=tcp://10.0.0.1:8080", "TENANTRY_PORT_8080_TCP_ADDR=10.0.0.1", "TENANTRY_API_SERVICE_HOST=10.0.0.1",
		"TENANTRY_DNS_PORT=53", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=x",
	}
	if got := settings.UnknownVariables(accepted); len(got) > 0 {
		t.Errorf("known variables are reported as unknown: %v", got)
	}
	unknown := []string{"TENANTRY_ADMIN_PORT=9090", "TENANTRY_PROVIDERS=x", "TENANTRY_PROVIDERS_MICROSOFT365=x", "TENANTRY_REDIS=x"}
	if got := settings.UnknownVariables(unknown); len(got) != len(unknown) {
		t.Errorf("of the unknown variables %v only %v are reported", unknown, got)
	}
}

func TestEverySettingHasAHelpText(t *testing.T) {
	t.Parallel()
	var names []string
	for field := range settings.Fields() {
		name := field.Tag.Get("koanf")
		if name == "" || slices.Contains(names, name) || field.Tag.Get("help") == "" {
			t.Errorf("field %s has the name %q and the help %q, want a unique name and a help text", field.Name, name, field.Tag.Get("help"))
		}
		names = append(names, name)
	}
}

// TestInvalidSettingsAreAUsageError checks that config shows the settings and also fails if one of
// them is invalid.
func TestInvalidSettingsAreAUsageError(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	if code := command.Run(t.Context(), []string{"config", "--listen", "nonsense"}, &output, io.Discard); code != cli.ExitUsage || !strings.Contains(output.String(), "nonsense") {
		t.Errorf("invalid settings: exit code %d and\n%s\nwant exit code %d and the settings", code, output.String(), cli.ExitUsage)
	}
}
