// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

func TestHelpIsGrouped(t *testing.T) {
	t.Parallel()
	help := operate(t, nil, "help")
	if help.code != 0 || help.errors != "" {
		t.Fatalf("%d %s", help.code, help.errors)
	}
	at := -1
	for _, want := range []string{"Usage:\n  tenantry COMMAND\n", "\nServe:\n", "\n  serve ", "\nOperate:\n", "\n  account ", "\n  doctor ", "\nDevelop:\n", "\n  dev ", "\nMore:\n", "\n  help "} {
		next := strings.Index(help.output, want)
		if next <= at {
			t.Fatalf("%q is missing or in another place:\n%s", want, help.output)
		}
		at = next
	}
	if strings.Contains(help.output, "reference") {
		t.Error("the command of make generate is shown")
	}
	if bare := operate(t, nil); bare.output != help.output || bare.code != 0 {
		t.Errorf("without a command: %d\n%s", bare.code, bare.output)
	}
	create := operate(t, nil, "account", "create", "--help").output
	if !strings.Contains(create, "--email") || strings.Contains(create, "--dns-port") || !strings.Contains(create, "tenantry serve --help") {
		t.Errorf("account create:\n%s", create)
	}
	serve := operate(t, nil, "help", "serve").output
	for field := range settings.Fields() {
		if field.Name != "Providers" && !strings.Contains(serve, "--"+settings.FlagName(field)+" ") {
			t.Errorf("serve --help lacks --%s", settings.FlagName(field))
		}
	}
}

// TestEveryCommandExplainsItself: each says what it does in a line, and no flag
// is without a word.
func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q", cmd.CommandPath(), cmd.Short)
		}
		own, _ := cli.Flags(cmd)
		for _, line := range strings.Split(strings.TrimSpace(own.FlagUsages()), "\n") {
			if line != "" && !regexp.MustCompile(`--\S+( \S+)?\s{2,}\S`).MatchString(line) {
				t.Errorf("%s: %s", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(command.Root())
}

// TestCompletion: each shell gets a script; bash completes with it.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, has := range map[string]string{
		"bash": "__start_tenantry", "zsh": "#compdef tenantry", "fish": "complete -c tenantry", "powershell": "Register-ArgumentCompleter",
	} {
		if script := operate(t, nil, "completion", shell); script.code != 0 || !strings.Contains(script.output, has) {
			t.Errorf("%s: exit code %d, %d bytes", shell, script.code, len(script.output))
		}
	}
	operate(t, nil, "completion").fails(t, cli.ExitUsage)
	operate(t, nil, "completion", "tcsh").fails(t, cli.ExitUsage)
	for line, want := range map[string]string{
		"tenantry doc":                   "doctor",
		"tenantry account cr":            "create",
		"tenantry account create --em":   "--email",
		"tenantry key create --form t":   "trial",
		"tenantry config --output j":     "json",
		"tenantry serve --log-level err": "error",
		"tenantry completion z":          "zsh",
	} {
		if got := bashCompletes(t, line); len(got) != 1 || got[0] != want {
			t.Errorf("%q is completed to %v, want %s", line, got, want)
		}
	}
}

// bashCompletes asks bash, with our script loaded, as its Tab key does.
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
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "bash", line)
	cmd.Env = []string{"PATH=" + binary(t, release).folder + ":" + os.Getenv("PATH"), "HOME=" + scratch}
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Fatalf("bash: %v\n%s", err, failed.Stderr)
	}
	var words []string
	for word := range strings.Lines(string(out)) {
		word, _, _ = strings.Cut(strings.TrimSpace(word), " ") // a description may follow
		words = append(words, word)
	}
	return words
}

// TestConfigurationPage: the page of all settings is what the code says.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	b := binary(t, release)
	cmd := exec.Command(b.binary, "reference")
	cmd.Stdin = bytes.NewReader(descriptions(t))
	page, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != string(committed) {
		t.Error("docs/configuration.md is stale: run make generate")
	}
	for _, want := range []string{"## Storage", "| `database_url` | `TENANTRY_DATABASE_URL` | `--database-url` |", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE", "(required)"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	cmd = exec.Command(b.binary, "reference")
	if out, err := cmd.Output(); err == nil {
		t.Errorf("without descriptions it prints %d bytes", len(out))
	}
}
