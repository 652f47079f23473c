// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

// TestEmptyFlagValueIsAUsageError checks that flags refuse an empty value if it would be dangerous.
// A script with an unset variable must not write an unencrypted backup, list the keys of all
// accounts or change a plan. But `--name` and `--public-url` of `key create` may be empty.
func TestEmptyFlagValueIsAUsageError(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "--tenant-slots", "3", "-o", "json").mustJSON(t)
	for _, args := range [][]string{
		{"backup", "--credential-file", "", "file"}, {"restore", "--credential-file", "", "file"},
		{"key", "list", "--account", ""}, {"tenant", "list", "--account", ""}, {"audit", "list", "--account", ""},
		{"account", "plan", "--account", "ann@example.com", "--plan", ""}, {"account", "close", "--yes", "--account", ""},
		{"key", "revoke", "--key", ""},
	} {
		result := runTenantry(t, env, args...)
		result.checkFailure(t, cli.ExitUsage)
		if !strings.Contains(result.stderr, " is empty") {
			t.Errorf("%v: the error does not say that a value is empty: %s", args, result.stderr)
		}
	}
	checkValues(t, runTenantry(t, env, "account", "show", "--account", "ann@example.com", "-o", "json").mustJSON(t), object{"tenant_slots": 3})
	runTenantry(t, env, "key", "create", "--account", "ann@example.com", "--name", "", "--public-url", "", "-o", "json").mustJSON(t)
}

// TestUsageErrorsNameTheMistakeAndTheHelp checks that usage errors name the mistake or the command
// that helps. A usage error is JSON if the flag for JSON output is set.
func TestUsageErrorsNameTheMistakeAndTheHelp(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"acount":                         "did you mean account?",
		"account lst":                    "did you mean list?",
		"account list extra":             "`tenantry account list --help`",
		"help nonsense":                  `no command "nonsense"`,
		"help account nonsense":          `tenantry account has no command "nonsense"`,
		"backup":                         "the name of one file",
		"backup -":                       "the name of one file",
		"restore one two":                "the name of one file",
		"plugin add":                     "the name of at least one file",
		"serve --listen 127.0.0.1:99999": "not host:port",
		"serve --circuit-open 0s":        "`tenantry config`",
		"config --config missing.yaml":   "`tenantry serve --help`",
		"account list --nonsense":        "`tenantry account list --help`",
		"account create --email a@b.example --tenant-slots 1000001": "must be between 0 and 1000000",
	} {
		args := strings.Split(line, " ")
		result := runTenantry(t, nil, args...)
		result.checkFailure(t, cli.ExitUsage)
		if !strings.Contains(result.stderr, want) {
			t.Errorf("%s: the error lacks %q: %s", line, want, result.stderr)
		}
		for _, jsonFlags := range [][]string{{"-o", "json"}, {"-o=json"}, {"-ojson"}, {"--output", "json"}, {"--output=json"}} {
			result := runTenantry(t, nil, append(args[:len(args):len(args)], jsonFlags...)...)
			var printed object
			if err := json.Unmarshal([]byte(result.stderr), &printed); err != nil || result.code != cli.ExitUsage || result.stdout != "" {
				t.Fatalf("%s %v: exit code %d, want a usage error as JSON (%v): %s%s", line, jsonFlags, result.code, err, result.stdout, result.stderr)
			}
			checkValues(t, printed, object{"error.code": "usage"})
		}
	}
}

// TestCLIErrorsSuggestOperatorFixes checks the member `fix` of errors that have an error code of
// the API. The fix names a command that helps, and no path of the API. Standard error contains only
// the error.
func TestCLIErrorsSuggestOperatorFixes(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	for line, want := range map[string]string{
		"tenant assign --account ann@example.com --tenant " + noSuchID: "`tenantry doctor`",
		"tenant withdraw --tenant " + noSuchID:                         "`tenantry tenant list`",
		"account show --account nobody@example.com":                    "`tenantry account list`",
	} {
		result := runTenantry(t, env, append(strings.Split(line, " "), "-o", "json")...)
		var printed object
		if err := json.Unmarshal([]byte(result.stderr), &printed); err != nil || result.code == 0 {
			t.Fatalf("%s: exit code %d, want an error as JSON (%v): %s", line, result.code, err, result.stderr)
		}
		if fix := fmt.Sprint(printed.valueAt("error.fix")); !strings.Contains(fix, want) || strings.Contains(fix, "/v1/") {
			t.Errorf("%s: the fix is %q, want the command %s and no path of the API", line, fix, want)
		}
	}
}

// TestCommandsOfOperatorsCreateNoDatabase checks that a command fails if the data folder does not
// exist, and does not create the folder. The error names the missing file and the remedies.
func TestCommandsOfOperatorsCreateNoDatabase(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"account", "list"}, {"account", "create", "--email", "ann@example.com"}, {"key", "list"}, {"tenant", "list"}, {"audit", "list"},
		{"dns-connection", "list"}, {"tenant", "assign", "--tenant", noSuchID, "--account", "ann@example.com"},
		{"backup", filepath.Join(t.TempDir(), "b")},
	} {
		result := runTenantry(t, []string{"TENANTRY_DATA_DIR=" + dataDir}, args...)
		result.checkFailure(t, cli.ExitRefused)
		for _, want := range []string{filepath.Join(dataDir, "tenantry.db"), "`tenantry migrate`", "data_dir"} {
			if !strings.Contains(result.stderr, want) {
				t.Errorf("%v: the error lacks %s: %s", args, want, result.stderr)
			}
		}
	}
	if _, err := os.Stat(dataDir); !os.IsNotExist(err) {
		t.Errorf("a command created the data folder: %v", err)
	}
}

// TestTablesHaveNoTrailingSpaces checks that no line of a list of accounts ends in spaces. It also
// checks the output for an empty list. Names of keys with a line break or more than 100 characters
// are refused, because a table cannot show them.
func TestTablesHaveNoTrailingSpaces(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	if emptyList := runTenantry(t, env, "account", "list"); emptyList.code != 0 || emptyList.stdout != "" || emptyList.stderr != "there are no accounts\n" {
		t.Errorf("an empty list: exit code %d, output %q, error %q, want only a note on standard error", emptyList.code, emptyList.stdout, emptyList.stderr)
	}
	checkValues(t, runTenantry(t, env, "account", "list", "-o", "json").mustJSON(t), object{"count": 0})
	runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t)
	for _, name := range []string{"two\nlines", strings.Repeat("x", 101)} {
		runTenantry(t, env, "key", "create", "--account", "ann@example.com", "--name", name).checkFailure(t, cli.ExitUsage)
	}
	table := runTenantry(t, env, "account", "list")
	if !strings.Contains(table.stdout, "ann@example.com") {
		t.Errorf("account list: exit code %d, want 0 and the account of ann@example.com: %s%s", table.code, table.stdout, table.stderr)
	}
	for _, line := range strings.Split(table.stdout, "\n") {
		if line != strings.TrimRight(line, " ") {
			t.Errorf("%q ends in spaces", line)
		}
	}
}

func TestHelpGroupsCommands(t *testing.T) {
	t.Parallel()
	help := runTenantry(t, nil, "help")
	if help.code != 0 || help.stderr != "" {
		t.Fatalf("help ends with exit code %d and the error %q, want 0 and none", help.code, help.stderr)
	}
	lastIndex := -1
	for _, want := range []string{"Usage:\n  tenantry COMMAND\n", "\nServe:\n", "\n  serve ", "\nOperate:\n", "\n  account ", "\n  doctor ", "\nDevelop:\n", "\n  dev ", "\nMore:\n", "\n  help "} {
		index := strings.Index(help.stdout, want)
		if index <= lastIndex {
			t.Fatalf("%q is missing or in a different position:\n%s", want, help.stdout)
		}
		lastIndex = index
	}
	if strings.Contains(help.stdout, "reference") {
		t.Error("the help shows the command that make generate uses")
	}
	if withoutCommand := runTenantry(t, nil); withoutCommand.stdout != help.stdout || withoutCommand.code != 0 {
		t.Errorf("without a command: exit code %d, want 0 and the help\n%s", withoutCommand.code, withoutCommand.stdout)
	}
	createHelp := runTenantry(t, nil, "account", "create", "--help").stdout
	if !strings.Contains(createHelp, "--email") || strings.Contains(createHelp, "--dns-port") || !strings.Contains(createHelp, "tenantry serve --help") {
		t.Errorf("the help of account create lacks --email or `tenantry serve --help`, or shows --dns-port:\n%s", createHelp)
	}
	serveHelp := runTenantry(t, nil, "help", "serve").stdout
	for field := range settings.Fields() {
		if field.Name != "Providers" && !strings.Contains(serveHelp, "--"+settings.FlagName(field)+" ") {
			t.Errorf("serve --help lacks --%s", settings.FlagName(field))
		}
	}
}

// TestEveryCommandHasAHelpText checks that each command has a summary without a final period, and
// that each of its own flags has a description.
func TestEveryCommandHasAHelpText(t *testing.T) {
	t.Parallel()
	var checkTree func(cmd *cobra.Command)
	checkTree = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s has the summary %q, want a text without a final period", cmd.CommandPath(), cmd.Short)
		}
		ownFlags, _ := cli.SplitFlags(cmd)
		for _, line := range strings.Split(strings.TrimSpace(ownFlags.FlagUsages()), "\n") {
			if line != "" && !regexp.MustCompile(`--\S+( \S+)?\s{2,}\S`).MatchString(line) {
				t.Errorf("%s: a flag has no description: %s", cmd.CommandPath(), line)
			}
		}
		for _, subcommand := range cmd.Commands() {
			checkTree(subcommand)
		}
	}
	checkTree(command.Root())
}

// TestEachShellGetsACompletionScript checks that each shell gets a script, and that bash completes
// command lines with its script.
func TestEachShellGetsACompletionScript(t *testing.T) {
	t.Parallel()
	for shell, wantText := range map[string]string{
		"bash": "__start_tenantry", "zsh": "#compdef tenantry", "fish": "complete -c tenantry", "powershell": "Register-ArgumentCompleter",
	} {
		if script := runTenantry(t, nil, "completion", shell); script.code != 0 || !strings.Contains(script.stdout, wantText) {
			t.Errorf("completion %s: exit code %d and %d bytes, want a script with %q", shell, script.code, len(script.stdout), wantText)
		}
	}
	runTenantry(t, nil, "completion").checkFailure(t, cli.ExitUsage)
	runTenantry(t, nil, "completion", "tcsh").checkFailure(t, cli.ExitUsage)
	for line, want := range map[string]string{
		"tenantry doc":                   "doctor",
		"tenantry account cr":            "create",
		"tenantry account create --em":   "--email",
		"tenantry key create --form t":   "trial",
		"tenantry config --output j":     "json",
		"tenantry serve --log-level err": "error",
		"tenantry completion z":          "zsh",

		"tenantry dns-connection add --provider p": "powerdns", // from the plugin catalog
	} {
		if got := bashCompletes(t, line); len(got) != 1 || got[0] != want {
			t.Errorf("%q is completed to %v, want %s", line, got, want)
		}
	}
}

// bashCompletes returns the completions that bash offers for the Tab key with the script of
// `tenantry completion`.
func bashCompletes(t *testing.T, line string) []string {
	t.Helper()
	const script = `
source <(tenantry completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
__start_tenantry tenantry
printf '%s\n' "${COMPREPLY[@]}"`
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "bash", line)
	cmd.Env = []string{"PATH=" + requirePrograms(t, releaseBuild).folder + ":" + os.Getenv("PATH"), "HOME=" + scratchDir}
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Fatalf("the completion fails in bash: %v\n%s", err, failed.Stderr)
	}
	var words []string
	for word := range strings.Lines(string(out)) {
		word, _, _ = strings.Cut(strings.TrimSpace(word), " ") // a description may follow
		words = append(words, word)
	}
	return words
}

// TestConfigurationPageIsCurrent compares docs/configuration.md with the output of
// `tenantry reference`.
func TestConfigurationPageIsCurrent(t *testing.T) {
	t.Parallel()
	build := requirePrograms(t, releaseBuild)
	cmd := exec.Command(build.binary, "reference")
	cmd.Stdin = bytes.NewReader(pluginDescriptions(t))
	page, err := cmd.Output()
	must(t, err)
	if string(page) != fileText(t, "../../docs/configuration.md") {
		t.Error("docs/configuration.md is stale: run make generate")
	}
	for _, want := range []string{"## Storage", "| `database_url` | `TENANTRY_DATABASE_URL` | `--database-url` |", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE", "(required)"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	cmd = exec.Command(build.binary, "reference")
	if out, err := cmd.Output(); err == nil {
		t.Errorf("without the descriptions of plugins, reference succeeds and prints %d bytes", len(out))
	}
}
