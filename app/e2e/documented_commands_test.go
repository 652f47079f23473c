// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

// TestDocumentedCommandsExist checks the command lines and variables in documentFiles. The
// commands, flags and settings must exist.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	isKnown := knownVariables(t)
	lineCount := 0
	for path, text := range documentFiles(t) {
		for _, line := range commandLines(path, text) {
			lineCount++
			if err := checkCommandLine(line); err != nil {
				t.Errorf("%s: `%s`: %v", path, line, err)
			}
		}
		for _, name := range variableName.FindAllString(text, -1) {
			if !isKnown(name) {
				t.Errorf("%s: %s is not a known variable", path, name)
			}
		}
	}
	if lineCount < 30 {
		t.Errorf("only %d command lines were found, want at least 30", lineCount)
	}
}

// TestWrongDocumentedCommandsAreNoticed checks that the functions of TestDocumentedCommandsExist
// notice wrong commands and variables, and accept correct commands and variables.
func TestWrongDocumentedCommandsAreNoticed(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"`tenantry nowhere`", "`tenantry key make`", "`tenantry serve --nowhere`", "```\nbin/tenantry account nowhere\n```\n", "```\nsudo -u tenantry tenantry doctor --nowhere x\n```\n"} {
		if lines := commandLines("page.md", page); len(lines) != 1 || checkCommandLine(lines[0]) == nil {
			t.Errorf("%q: the command lines are %q, want one line, which the check refuses", page, lines)
		}
	}
	for _, page := range []string{"`tenantry serve --listen 127.0.0.1:0`", "`tenantry account create|list`", "`tenantry plugin add FILE…`", "```\ntenantry key create --account ID | jq .\n```\n"} {
		if lines := commandLines("page.md", page); len(lines) != 1 || checkCommandLine(lines[0]) != nil {
			t.Errorf("%q: the command lines are %q, want one line, which the check accepts", page, lines)
		}
	}
	isKnown := knownVariables(t)
	for name, want := range map[string]bool{
		"TENANTRY_LISTEN": true, "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE": true, "TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL": true,
		"TENANTRY_PROVIDERS_CLOUDFLARE_API_URL": true, "TENANTRY_PROVIDERS_CLOUDFLARE_API_TOKEN_FILE": false, // an account provides it
		"TENANTRY_NOWHERE": false, "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET": false, "TENANTRY_PROVIDERS_MICROSOFT365_NOWHERE": false,
	} {
		if isKnown(name) != want {
			t.Errorf("%s: known is %v, want %v", name, !want, want)
		}
	}
}

// documentFiles returns the text of pages, of deployment files, and of the sources below app, which
// contain error texts.
func documentFiles(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-co", "--exclude-standard", "*.md", "deploy", "docs", "app/*.go").Output()
	must(t, err)
	files := map[string]string{}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, but not committed yet
		}
		must(t, err)
		files[path] = string(text)
	}
	return files
}

var (
	quotedCommand = regexp.MustCompile("`(tenantry [^`]+)`")
	typedCommand  = regexp.MustCompile(`(?m)^(?:\$ |@)?(?:[A-Z_]+=\S+ )*(?:sudo (?:-u \S+ )?)?(?:\S*/)?tenantry ([a-z-].*)$`)
	fencedBlock   = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	variableName  = regexp.MustCompile(`TENANTRY_[A-Z0-9_]+`)
	commandWord   = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z|-]+)?$`)
)

// commandLines returns the command lines of a file: in backquotes, or in a fenced block of a page.
func commandLines(path, text string) []string {
	var lines []string
	if !strings.HasSuffix(path, ".md") {
		for _, m := range quotedCommand.FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
		return lines
	}
	for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
		for _, m := range typedCommand.FindAllStringSubmatch(strings.ReplaceAll(block[1], "\\\n", " "), -1) {
			lines = append(lines, "tenantry "+m[1])
		}
	}
	for _, m := range quotedCommand.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// commandTree is the tree of all commands. A lookup by cobra changes the tree, so the mutex guards
// it.
var (
	commandTreeMutex sync.Mutex
	commandTree      = sync.OnceValue(func() *cobra.Command {
		root := command.Root()
		root.InitDefaultCompletionCmd()
		root.InitDefaultHelpCmd()
		return root
	})
)

// checkCommandLine checks one command line against the commands and their flags. `create|list`
// stands for both commands.
func checkCommandLine(line string) error {
	commandTreeMutex.Lock()
	defer commandTreeMutex.Unlock()
	root := commandTree()
	line, _, _ = strings.Cut(line, " | ")
	commands := []*cobra.Command{root}
	for i, token := range strings.Fields(line)[1:] {
		name, _, _ := strings.Cut(token, "=")
		switch {
		case strings.HasPrefix(token, "--") && name != "--":
			if !slices.ContainsFunc(commands, func(c *cobra.Command) bool { return hasFlag(c, strings.TrimPrefix(name, "--")) }) {
				return fmt.Errorf("no flag %s", name)
			}
		case i < 2 && commands[0].HasSubCommands() && commandWord.MatchString(token):
			var namedCommands []*cobra.Command
			for alternative := range strings.SplitSeq(token, "|") {
				found, _, err := commands[0].Find([]string{alternative})
				if err != nil || found == commands[0] {
					return fmt.Errorf("no command %s", alternative)
				}
				namedCommands = append(namedCommands, found)
			}
			commands = namedCommands
		}
	}
	return nil
}

// hasFlag reports whether a command has a flag of this name, its own or inherited.
func hasFlag(c *cobra.Command, name string) bool {
	return name == "help" || c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
}

// knownVariables returns a function that reports whether a name is a known variable. The known
// variables are those of the settings, of the operator's settings of bundled providers, of shell
// examples, of tests and of benchmarks. Two more are known: Kubernetes sets TENANTRY_SERVICE_HOST,
// and the service passes the magic cookie TENANTRY_PLUGIN to plugins.
func knownVariables(t *testing.T) func(string) bool {
	t.Helper()
	names := []string{"TENANTRY_URL", "TENANTRY_KEY", "TENANTRY_CONTROL", "TENANTRY_TENANT", "TENANTRY_SOAK", "TENANTRY_SHOTS", "TENANTRY_TEST_BIN", "TENANTRY_SERVICE_HOST",
		"TENANTRY_PLUGIN", "TENANTRY_BENCH_EVENTS"}
	for field := range settings.Fields() {
		if field.Type.Kind() != reflect.Map {
			names = append(names, "TENANTRY_"+strings.ToUpper(field.Tag.Get("koanf")))
		}
	}
	for decoder := json.NewDecoder(bytes.NewReader(pluginDescriptions(t))); decoder.More(); {
		var plugin struct {
			Name   string
			Fields []struct {
				Name            string
				Secret, Account bool
			}
		}
		must(t, decoder.Decode(&plugin))
		for _, field := range plugin.Fields {
			name := settings.VariableName("providers." + plugin.Name + "." + field.Name)
			if field.Secret {
				name += "_FILE"
			}
			if !field.Account {
				names = append(names, name)
			}
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(names, func(known string) bool {
			// A page can write TENANTRY_PROVIDERS_<NAME>. The pattern then finds the beginning of a
			// known name.
			return name == known || strings.HasSuffix(name, "_") && strings.HasPrefix(known, name)
		})
	}
}

// TestReadmeTourWorks runs every sh block of the README and then of docs/limits.md in one shell, at
// a sandbox in the data folder that the README uses.
func TestReadmeTourWorks(t *testing.T) {
	t.Parallel()
	shBlock := regexp.MustCompile("(?s)```sh\n(.*?)```")
	blocks := shBlock.FindAllStringSubmatch(fileText(t, "../../README.md"), -1)
	limitsBlocks := shBlock.FindAllStringSubmatch(fileText(t, "../../docs/limits.md"), -1)
	if len(blocks) < 5 || len(limitsBlocks) < 2 {
		t.Fatalf("the README has %d sh blocks, want at least 5; the page on limits has %d, want at least 2", len(blocks), len(limitsBlocks))
	}
	folder := t.TempDir()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), filepath.Join(folder, "tenantry-dev"), nil)
	must(t, os.CopyFS(filepath.Join(folder, "docs"), os.DirFS("../../docs")))
	script := "set -eu\n"
	for _, block := range append(blocks, limitsBlocks...) {
		script += block[1]
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour stopped: %v\n%s", err, out)
	}
	for _, want := range []string{`"is_verified":true`, `"dkim_status":"healthy"`, `"created_count":2`, "ada@example-one.test",
		`"is_blocked":true`, "Mailbox blocked: sent 6, limit 5", `"is_blocked":false`, "Mailbox unblocked: sent 0, limit 5"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour's output lacks %s:\n%s", want, out)
		}
	}
	c := client{t, ready}
	if got := c.callAPI("GET", "/v1/tenants/"+ready.Tenants[0].TenantID+"/mailboxes"); got.text("count") != "2" {
		t.Errorf("after the tour the tenant has the mailboxes %s, want 2", got.raw)
	}
}
