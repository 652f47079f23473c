// SPDX-License-Identifier: Apache-2.0

package template

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// TestNewPluginBuildsWithARelease writes a plugin that requires the release 1.2.3 and runs the
// commands that New returns. A folder in the format of a module proxy serves this repository as
// that release, so the plugin's go.mod needs no `replace` line with a local path.
func TestNewPluginBuildsWithARelease(t *testing.T) {
	version := "v1.2.3"
	proxy := writeModuleProxy(t, version)
	cache := runCommand(t, ".", nil, "go", "env", "GOMODCACHE")
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + runCommand(t, ".", nil, "go", "env", "GOPROXY"),
		"GOMODCACHE=" + t.TempDir(), "GONOSUMDB=" + SDKModule, "GOFLAGS=-trimpath -modcacherw", "GOWORK=off",
	}
	for _, kind := range soak.Sample(t, Kinds, 1) {
		p := writePlugin(t, Options{Kind: kind, Name: "acme", Version: strings.TrimPrefix(version, "v")})
		for _, command := range p.Build {
			runCommand(t, p.Folder, env, strings.Fields(command)...)
		}
		runCommand(t, p.Folder, env, "go", "vet", "./...")
		if described := runCommand(t, p.Folder, nil, "./"+kind+"-acme", "describe"); !strings.Contains(described, `"acme"`) {
			t.Errorf("%s: the program describes %s, want the name acme", kind, described)
		}
	}
}

// writeModuleProxy writes a folder that serves the Go, HTML and text files of this repository as a
// module of this version. The
// format of the folder is described at https://go.dev/ref/mod#goproxy-protocol. writeModuleProxy
// returns the path of the folder.
func writeModuleProxy(t *testing.T, version string) string {
	t.Helper()
	repository := filepath.Join("..", "..")
	proxy := t.TempDir()
	folder := filepath.Join(proxy, filepath.FromSlash(SDKModule), "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(goMod),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	files := strings.Fields(runCommand(t, repository, nil, "git", "ls-files", "-co", "--exclude-standard", "*.go", "*.html", "*.txt", "go.mod", "*/go.mod"))
	var moduleFolders []string // folders of the modules inside this repository
	for _, name := range files {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			moduleFolders = append(moduleFolders, path.Dir(name)+"/")
		}
	}
	zipWriter := zip.NewWriter(archive)
	for _, name := range files {
		if slices.ContainsFunc(moduleFolders, func(moduleFolder string) bool { return strings.HasPrefix(name, moduleFolder) }) {
			continue
		}
		source, err := os.Open(filepath.Join(repository, filepath.FromSlash(name)))
		if os.IsNotExist(err) { // the file was deleted and the deletion is not staged
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		entry, err := zipWriter.Create(SDKModule + "@" + version + "/" + name)
		if err == nil {
			_, err = io.Copy(entry, source)
		}
		_ = source.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := zipWriter.Close(); err != nil {
		t.Fatal(err)
	}
	return proxy
}

// runCommand runs a command in a folder, with additional environment variables. It returns the
// output of the command.
func runCommand(t *testing.T, folder string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	var problems strings.Builder
	cmd.Stderr = &problems
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, problems.String())
	}
	return strings.TrimSpace(string(printed))
}
