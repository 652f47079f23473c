// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNewLeavesNothingToRename writes a plugin from each template. The word "example" may stand
// only in a reserved domain and in "for example".
func TestNewLeavesNothingToRename(t *testing.T) {
	reserved := regexp.MustCompile(`[Ff]or example|\bexample\.(com|net|org)\b|\.example\b`)
	written := 0
	for _, kind := range Kinds {
		for _, language := range Languages {
			written++
			t.Run(language+"-"+kind, func(t *testing.T) {
				plugin := writePlugin(t, Options{Kind: kind, Name: "acme", Language: language, Version: "1.2.3"})
				if filepath.Base(plugin.Folder) != kind+"-acme" {
					t.Errorf("the folder is %s, want the name %s-acme", plugin.Folder, kind)
				}
				if ci := readFile(t, plugin, ".github/workflows/ci.yml"); !strings.Contains(ci, "tenantry plugin test ./"+kind+"-acme\n") {
					t.Errorf("the CI file does not run the suite:\n%s", ci)
				}
				for _, name := range plugin.Files {
					text := readFile(t, plugin, name)
					if remaining := reserved.ReplaceAllString(name+"\n"+text, ""); strings.Contains(strings.ToLower(remaining), "example") {
						t.Errorf("%s contains the word example of the template", name)
					}
					if strings.Contains(text, "SPDX-License-Identifier") || strings.Contains(text, templateModule) {
						t.Errorf("%s has the licence or the import path of the template", name)
					}
					if formatted, err := format.Source([]byte(text)); strings.HasSuffix(name, ".go") && (err != nil || string(formatted) != text) {
						t.Errorf("%s is not formatted as by gofmt: %v", name, err)
					}
					info, err := os.Stat(filepath.Join(plugin.Folder, name))
					if err != nil {
						t.Fatal(err)
					}
					if isScript := strings.HasPrefix(text, "#!"); isScript != (info.Mode().Perm()&0o100 != 0) {
						t.Errorf("%s has the mode %v, want it executable only if it is a script: %v", name, info.Mode(), isScript)
					}
				}
			})
		}
	}
	if written == 0 {
		t.Fatal("no template was written")
	}
}

func writePlugin(t *testing.T, options Options) Plugin {
	t.Helper()
	options.Parent = t.TempDir()
	p, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readFile(t *testing.T, p Plugin, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.Folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPluginRequiresAReleaseOrASourceFolder checks the module path, and which release or source
// folder of tenantry a plugin uses.
func TestPluginRequiresAReleaseOrASourceFolder(t *testing.T) {
	p := writePlugin(t, Options{Kind: "dns", Name: "acme", Module: "git.acme.example/plugins/dns", Version: "1.2.3"})
	goMod, main := readFile(t, p, "go.mod"), readFile(t, p, "main.go")
	if !strings.HasPrefix(goMod, "module git.acme.example/plugins/dns\n") || !strings.Contains(goMod, SDKModule+" v1.2.3\n") || strings.Contains(goMod, "replace") {
		t.Errorf("go.mod lacks the module path or the release 1.2.3, or has a replacement:\n%s", goMod)
	}
	if !strings.Contains(main, `"git.acme.example/plugins/dns/simulator"`) {
		t.Errorf("main.go does not import the simulator of its module:\n%s", main)
	}
	goMod = readFile(t, writePlugin(t, Options{Kind: "dns", Name: "acme", Source: "/src/tenantry"}), "go.mod")
	if !strings.HasPrefix(goMod, "module dns-acme\n") || !strings.HasSuffix(goMod, "\nreplace "+SDKModule+" => /src/tenantry\n") {
		t.Errorf("go.mod lacks the default module path or the source folder:\n%s", goMod)
	}
}

// TestReadmeHasTheBuild checks that the README of each template has the commands that New returns.
func TestReadmeHasTheBuild(t *testing.T) {
	for _, kind := range Kinds {
		for _, language := range Languages {
			p := writePlugin(t, Options{Kind: kind, Name: "acme", Language: language, Version: "1.2.3"})
			for _, command := range p.Build {
				if text := readFile(t, p, "README.md"); !strings.Contains(text, "\n"+command+"\n") {
					t.Errorf("the README of %s in %s lacks %q", kind, language, command)
				}
			}
		}
	}
}

func TestNewRefusesInvalidOptions(t *testing.T) {
	nonEmptyFolder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(nonEmptyFolder, "dns-acme", "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]Options{
		"KIND must be one of dns, sending, mail":                 {Kind: "registrar", Name: "acme"},
		"NAME must be 2 to 31":                                   {Kind: "dns", Name: "Acme-2"},
		`--language must be one of go, python, node, not "perl"`: {Kind: "mail", Name: "acme", Language: "perl"},
		"--module must be the path":                              {Kind: "dns", Name: "acme", Module: "a b"},
		"--source must name the folder":                          {Kind: "dns", Name: "acme"},
		"exists and is not empty":                                {Kind: "dns", Name: "acme", Version: "1.2.3", Parent: nonEmptyFolder},
	} {
		if options.Parent == "" {
			options.Parent = t.TempDir()
		}
		if _, err := New(options); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", options, err, want)
		}
		if entries, _ := os.ReadDir(options.Parent); options.Parent != nonEmptyFolder && len(entries) > 0 {
			t.Errorf("%+v: New wrote %v, want nothing", options, entries)
		}
	}
}

func TestRenameReplacesOnlyTheWordOfTheTemplate(t *testing.T) {
	for text, want := range map[string]string{
		"dns-example":                                 "dns-acme",
		"DNS provider Example.":                       "DNS provider Acme.",
		"*.ns.example.com":                            "*.ns.example.com",
		"https://api.example.com/":                    "https://api.example.com/",
		"mx.old.example":                              "mx.old.example",
		"For example, example":                        "For example, acme",
		"TENANTRY_PROVIDERS_EXAMPLE_API_URL, EXAMPLE": "TENANTRY_PROVIDERS_ACME_API_URL, ACME",
		"example-one.test and examples":               "acme-one.test and examples",
	} {
		if got := rename(text, "acme"); got != want {
			t.Errorf("%q is renamed to %q, want %q", text, got, want)
		}
	}
}

// TestModuleVersionsMatchTheRepository checks that modules.sh ran after the last change of go.mod.
// Each required version must be the version in this repository's go.mod, and each checksum must be
// in its go.sum.
func TestModuleVersionsMatchTheRepository(t *testing.T) {
	for templateFile, repositoryFile := range map[string]string{"gomod.txt": "go.mod", "gosum.txt": "go.sum"} {
		text, err := modules.ReadFile(templateFile)
		if err != nil {
			t.Fatal(err)
		}
		repository, err := os.ReadFile(filepath.Join("..", "..", repositoryFile))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(strings.TrimSpace(line), " // indirect")
			if fields := strings.Fields(line); len(fields) < 2 || fields[0] == "module" || fields[0] == "require" {
				continue
			}
			if lines++; !strings.Contains(string(repository), line) {
				t.Errorf("%s: %q is not in %s: run go generate ./plugins/template", templateFile, line, repositoryFile)
			}
		}
		if lines < 20 {
			t.Errorf("%s has only %d lines, want at least 20", templateFile, lines)
		}
	}
}

// TestPluginsPageShowsTheTemplate checks that the Go functions in docs/plugins.md are code of the
// plugins that `tenantry plugin new dns acme` and `tenantry plugin new mail acme` write.
func TestPluginsPageShowsTheTemplate(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, kind := range []string{"dns", "mail"} {
		p := writePlugin(t, Options{Kind: kind, Name: "acme", Version: "1.2.3"})
		for _, name := range p.Files {
			code.WriteString(readFile(t, p, name))
		}
	}
	blocks := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], "func ") {
			blocks++
			if !strings.Contains(code.String(), block[1]) {
				t.Errorf("the page shows code that the command does not write:\n%s", block[1])
			}
		}
	}
	if blocks < 3 {
		t.Errorf("the page shows %d parts of the plugins, want at least 3", blocks)
	}
}
