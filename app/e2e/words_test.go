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

// TestWordsOfTheDocuments: every command line and every variable that a page,
// a deployment file or a fix names is one that exists.
func TestWordsOfTheDocuments(t *testing.T) {
	t.Parallel()
	known := variables(t)
	lines := 0
	for path, text := range written(t) {
		for _, line := range commandLines(path, text) {
			lines++
			if err := exists(line); err != nil {
				t.Errorf("%s: `%s`: %v", path, line, err)
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			if !known(name) {
				t.Errorf("%s: there is no setting %s", path, name)
			}
		}
	}
	if lines < 30 {
		t.Errorf("only %d command lines found", lines)
	}
}

func TestWordsNoticesWrongOnes(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"`tenantry nowhere`", "`tenantry key make`", "`tenantry serve --nowhere`", "```\nbin/tenantry account nowhere\n```\n", "```\nsudo -u tenantry tenantry doctor --nowhere x\n```\n"} {
		if lines := commandLines("page.md", page); len(lines) != 1 || exists(lines[0]) == nil {
			t.Errorf("%q: %q", page, lines)
		}
	}
	for _, page := range []string{"`tenantry serve --listen 127.0.0.1:0`", "`tenantry account create|list`", "`tenantry plugin add FILE…`", "```\ntenantry key create --account ID | jq .\n```\n"} {
		if lines := commandLines("page.md", page); len(lines) != 1 || exists(lines[0]) != nil {
			t.Errorf("%q: %q %v", page, lines, exists(lines[0]))
		}
	}
	known := variables(t)
	for name, want := range map[string]bool{
		"TENANTRY_LISTEN": true, "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE": true, "TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL": true,
		"TENANTRY_PROVIDERS_CLOUDFLARE_API_URL": true, "TENANTRY_PROVIDERS_CLOUDFLARE_API_TOKEN_FILE": false, // an account gives it
		"TENANTRY_NOWHERE": false, "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET": false, "TENANTRY_PROVIDERS_MICROSOFT365_NOWHERE": false,
	} {
		if known(name) != want {
			t.Errorf("%s: known is %v", name, !want)
		}
	}
}

// written are the files that people read or run: pages, deployment files and
// the sources whose texts say what to do.
func written(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-co", "--exclude-standard", "*.md", "deploy", "docs", "app/*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	return files
}

var (
	quoted   = regexp.MustCompile("`(tenantry [^`]+)`")
	typed    = regexp.MustCompile(`(?m)^(?:\$ |@)?(?:[A-Z_]+=\S+ )*(?:sudo (?:-u \S+ )?)?(?:\S*/)?tenantry ([a-z-].*)$`)
	fenced   = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	variable = regexp.MustCompile(`TENANTRY_[A-Z0-9_]+`)
	word     = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z|-]+)?$`)
)

// commandLines finds the command lines of a page: quoted, or typed in a block.
func commandLines(path, text string) []string {
	var lines []string
	if !strings.HasSuffix(path, ".md") {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
		return lines
	}
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		for _, m := range typed.FindAllStringSubmatch(strings.ReplaceAll(block[1], "\\\n", " "), -1) {
			lines = append(lines, "tenantry "+m[1])
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// tree is the tree of all commands. cobra changes it while it looks up a command.
var (
	treeInUse sync.Mutex
	tree      = sync.OnceValue(func() *cobra.Command {
		root := command.Root()
		root.InitDefaultCompletionCmd()
		root.InitDefaultHelpCmd()
		return root
	})
)

// exists checks one command line against the commands and their flags.
// `create|list` stands for each of them.
func exists(line string) error {
	treeInUse.Lock()
	defer treeInUse.Unlock()
	root := tree()
	line, _, _ = strings.Cut(line, " | ")
	at := []*cobra.Command{root}
	for i, token := range strings.Fields(line)[1:] {
		name, _, _ := strings.Cut(token, "=")
		switch {
		case strings.HasPrefix(token, "--") && name != "--":
			if !slices.ContainsFunc(at, func(c *cobra.Command) bool { return hasFlag(c, strings.TrimPrefix(name, "--")) }) {
				return fmt.Errorf("no flag %s", name)
			}
		case i < 2 && at[0].HasSubCommands() && word.MatchString(token):
			var next []*cobra.Command
			for one := range strings.SplitSeq(token, "|") {
				found, _, err := at[0].Find([]string{one})
				if err != nil || found == at[0] {
					return fmt.Errorf("no command %s", one)
				}
				next = append(next, found)
			}
			at = next
		}
	}
	return nil
}

func hasFlag(c *cobra.Command, name string) bool {
	return name == "help" || c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
}

// variables knows the variables of the settings, those of the bundled
// providers, and the few that are none: a shell's own names for what the
// sandbox wrote, switches of tests, and what Kubernetes sets for a service.
func variables(t *testing.T) func(string) bool {
	t.Helper()
	names := []string{"TENANTRY_URL", "TENANTRY_KEY", "TENANTRY_CONTROL", "TENANTRY_TENANT", "TENANTRY_SOAK", "TENANTRY_SHOTS", "TENANTRY_TEST_BIN", "TENANTRY_SERVICE_HOST"}
	for field := range settings.Fields() {
		if field.Type.Kind() != reflect.Map {
			names = append(names, "TENANTRY_"+strings.ToUpper(field.Tag.Get("koanf")))
		}
	}
	for in := json.NewDecoder(bytes.NewReader(descriptions(t))); in.More(); {
		var about struct {
			Name   string
			Fields []struct {
				Name            string
				Secret, Account bool
			}
		}
		if err := in.Decode(&about); err != nil {
			t.Fatal(err)
		}
		for _, field := range about.Fields {
			name := settings.VariableName("providers." + about.Name + "." + field.Name)
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
			return name == known || strings.HasSuffix(name, "_") && strings.HasPrefix(known, name) // TENANTRY_PROVIDERS_<NAME>
		})
	}
}
