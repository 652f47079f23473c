// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// TestEmptyFlagsAreNotLeftOutFlags: a script whose variable is not set neither
// writes a backup in clear, nor sees all accounts' keys, nor takes a plan back.
func TestEmptyFlagsAreNotLeftOutFlags(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	operate(t, env, "account", "create", "--email", "ann@example.com", "--tenant-slots", "3", "-o", "json").json(t)
	for _, args := range [][]string{
		{"backup", "--credential-file", "", "file"}, {"restore", "--credential-file", "", "file"},
		{"key", "list", "--account", ""}, {"tenant", "list", "--account", ""}, {"audit", "list", "--account", ""},
		{"account", "plan", "--account", "ann@example.com", "--plan", ""}, {"account", "close", "--yes", "--account", ""},
		{"key", "revoke", "--key", ""},
	} {
		o := operate(t, env, args...)
		o.fails(t, cli.ExitUsage)
		if !strings.Contains(o.errors, " is empty") {
			t.Errorf("%v: %s", args, o.errors)
		}
	}
	sees(t, operate(t, env, "account", "show", "--account", "ann@example.com", "-o", "json").json(t), object{"tenant_slots": 3})
	operate(t, env, "key", "create", "--account", "ann@example.com", "--name", "", "--public-url", "", "-o", "json").json(t)
}

// TestUsageErrors: whatever is wrong with a command line, the words name it and
// where help is, as JSON where that is asked for in any place of the line.
func TestUsageErrors(t *testing.T) {
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
		"plugin add":                     "the name of a file",
		"serve --listen 127.0.0.1:99999": "not host:port",
		"serve --circuit-open 0s":        "`tenantry config`",
		"config --config missing.yaml":   "`tenantry serve --help`",
		"account list --nonsense":        "`tenantry account list --help`",
		"account create --email a@b.example --tenant-slots 1000001": "from 0 to 1000000",
	} {
		args := strings.Split(line, " ")
		o := operate(t, nil, args...)
		o.fails(t, cli.ExitUsage)
		if !strings.Contains(o.errors, want) {
			t.Errorf("%s: %s", line, o.errors)
		}
		for _, asked := range [][]string{{"-o", "json"}, {"-o=json"}, {"-ojson"}, {"--output", "json"}, {"--output=json"}} {
			o := operate(t, nil, append(args[:len(args):len(args)], asked...)...)
			var printed object
			if err := json.Unmarshal([]byte(o.errors), &printed); err != nil || o.code != cli.ExitUsage || o.output != "" {
				t.Fatalf("%s %v: exit code %d, %v: %s%s", line, asked, o.code, err, o.output, o.errors)
			}
			sees(t, printed, object{"error.code": "usage"})
		}
	}
}

// TestErrorsAreForOperators: a refusal that callers of the API meet too says
// what an operator does about it, and nothing else is on standard error.
func TestErrorsAreForOperators(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	const guid = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	for line, want := range map[string]string{
		"tenant assign --account ann@example.com --tenant " + guid: "`tenantry doctor`",
		"tenant withdraw --tenant " + guid:                         "`tenantry tenant list`",
		"account show --account nobody@example.com":                "`tenantry account list`",
	} {
		o := operate(t, env, append(strings.Split(line, " "), "-o", "json")...)
		var printed object
		if err := json.Unmarshal([]byte(o.errors), &printed); err != nil || o.code == 0 {
			t.Fatalf("%s: exit code %d, %v: %s", line, o.code, err, o.errors)
		}
		if fix := fmt.Sprint(printed.at("error.fix")); !strings.Contains(fix, want) || strings.Contains(fix, "/v1/") {
			t.Errorf("%s: %s", line, fix)
		}
	}
}

// TestTables: no space at the ends of lines, and words instead of nothing.
func TestTables(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	first := operate(t, env, "account", "list")
	if !strings.HasPrefix(first.errors, "tenantry: warning: there was no database at ") || first.code != 0 {
		t.Errorf("an empty folder passes for the service's: %d %q", first.code, first.errors)
	}
	if none := operate(t, env, "account", "list"); none.code != 0 || none.output != "" || none.errors != "there are no accounts\n" {
		t.Errorf("%d %q %q", none.code, none.output, none.errors)
	}
	sees(t, operate(t, env, "account", "list", "-o", "json").json(t), object{"count": 0})
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	for _, name := range []string{"two\nlines", strings.Repeat("x", 101)} { // which no table bears
		operate(t, env, "key", "create", "--account", "ann@example.com", "--name", name).fails(t, cli.ExitUsage)
	}
	for _, line := range strings.Split(operate(t, env, "account", "list").output, "\n") {
		if line != strings.TrimRight(line, " ") {
			t.Errorf("%q ends in spaces", line)
		}
	}
}
