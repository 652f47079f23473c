// SPDX-License-Identifier: Apache-2.0

// Package template has the plugins that `tenantry plugin new` writes. Each folder LANGUAGE-KIND has
// the files of one plugin. A folder LANGUAGE has the files that the plugins of all kinds in a
// language share. Plugins in Go import the SDK instead. A plugin that New writes works without a
// change: it builds, its tests pass, and it runs in the sandbox. In the templates, the providers
// have the id "example".
//
// New copies these folders and replaces the word "example" by the name of the new plugin. The
// reserved domains example.com, example.net, example.org and .example, and "for example" in a text,
// stay as they are. A template must not use the word for anything else.
//
//   - template.go: New and its Options.
//   - rename.go: how the word "example" in a template becomes the name of the new plugin.
//   - gomod.txt, gosum.txt: go.mod and go.sum of a plugin in Go. modules.sh writes both.
package template

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate ./modules.sh

//go:embed all:go-dns all:go-mail all:go-sending
//go:embed python all:python-dns all:python-mail all:python-sending
//go:embed node/*.js node/*.json node/messages node/test all:node-dns all:node-mail all:node-sending
var templates embed.FS

//go:embed gomod.txt gosum.txt
var modules embed.FS

// Kinds are the kinds of plugins.
var Kinds = []string{"dns", "sending", "mail"}

// Languages are the languages of the templates. There is a template of each kind in each language.
var Languages = []string{DefaultLanguage, "python", "node"}

// DefaultLanguage is the language of a new plugin if the author names none.
const DefaultLanguage = "go"

// ErrOptions is the error of New for options that are not valid.
var ErrOptions = errors.New("the plugin cannot be written")

// Options describe a new plugin.
type Options struct {
	Kind, Name string
	Language   string // DefaultLanguage if it is empty
	// Module is the path of the Go module. The default is KIND-NAME.
	Module string
	// Parent is the folder in which New creates the folder KIND-NAME.
	Parent string
	// Version is the release of tenantry that a Go plugin requires, such as 1.2.3. If Source is not
	// empty, the plugin uses the source code in that folder instead.
	Version, Source string
}

// Plugin is a plugin that New has written.
type Plugin struct {
	Folder string   // the path of the folder
	Module string   // empty for languages other than Go
	Files  []string // paths in the folder, sorted
	Build  []string // commands that make the program ready to be tested and added
}

// buildCommands returns the commands that make the program in the folder of a plugin ready. For a
// plugin in Go that requires a release of tenantry, `go mod tidy` adds the checksum of the release
// to go.sum. gosum.txt lacks this checksum, because it is itself a part of the release.
func (o Options) buildCommands(program string) []string {
	switch o.Language {
	case "python":
		return []string{"tenantry plugin manifest " + program + " provider*.py simulator*.py tenantry_*.py messages"}
	case "node":
		return []string{"npm ci --ignore-scripts", "tenantry plugin manifest " + program + " *.js messages node_modules"}
	}
	compile := "go build -o " + program + " ."
	if o.Source != "" {
		return []string{compile}
	}
	return []string{"go mod tidy", compile}
}

var (
	pluginName = regexp.MustCompile(`^[a-z][a-z0-9]{1,30}$`)
	modulePath = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._~-]*(/[a-zA-Z0-9][a-zA-Z0-9._~-]*)*$`)
)

// New writes a plugin into a new folder. It fails with ErrOptions for invalid options, and when the
// folder exists and is not empty. After an error it may have written some of the files.
func New(options Options) (Plugin, error) {
	if options.Language == "" {
		options.Language = DefaultLanguage
	}
	if options.Module == "" && options.Language == "go" {
		options.Module = options.Kind + "-" + options.Name
	}
	if err := options.check(); err != nil {
		return Plugin{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	p := Plugin{Folder: filepath.Join(options.Parent, options.Kind+"-"+options.Name), Module: options.Module, Build: options.buildCommands(options.Kind + "-" + options.Name)}
	if entries, err := os.ReadDir(p.Folder); err == nil && len(entries) > 0 {
		return Plugin{}, fmt.Errorf("%w: the folder %s exists and is not empty", ErrOptions, p.Folder)
	}
	files, err := options.files()
	if err != nil {
		return Plugin{}, err
	}
	for name, content := range files {
		target := filepath.Join(p.Folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return Plugin{}, err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(target, []byte(content), mode); err != nil {
			return Plugin{}, err
		}
		p.Files = append(p.Files, name)
	}
	slices.Sort(p.Files)
	return p, nil
}

func (o Options) check() error {
	switch {
	case !slices.Contains(Kinds, o.Kind):
		return fmt.Errorf("KIND must be one of %s, not %q", strings.Join(Kinds, ", "), o.Kind)
	case !pluginName.MatchString(o.Name):
		return fmt.Errorf("NAME must be 2 to 31 lower-case letters and digits that begin with a letter, not %q", o.Name)
	case !slices.Contains(Languages, o.Language):
		return fmt.Errorf("--language must be one of %s, not %q", strings.Join(Languages, ", "), o.Language)
	case o.Language != "go" && o.Module != "":
		return errors.New("--module is only for a plugin in Go")
	case o.Language == "go" && !modulePath.MatchString(o.Module):
		return fmt.Errorf("--module must be the path of a Go module, not %q", o.Module)
	case o.Language == "go" && o.Version == "" && o.Source == "":
		return errors.New("this build of tenantry is not a release; --source must name the folder with its source code")
	}
	return nil
}

// files returns the files of the new plugin, keyed by their paths in its folder.
func (o Options) files() (map[string]string, error) {
	files := map[string]string{}
	if o.Language != "go" {
		return files, errors.Join(o.addFolder(files, o.Language), o.addFolder(files, o.Language+"-"+o.Kind))
	}
	if err := o.addFolder(files, "go-"+o.Kind); err != nil {
		return nil, err
	}
	for source, target := range map[string]string{"gomod.txt": "go.mod", "gosum.txt": "go.sum"} {
		content, err := modules.ReadFile(source)
		if err != nil {
			return nil, err
		}
		files[target] = string(content)
	}
	files["go.mod"] = o.goMod(files["go.mod"])
	return files, nil
}

// ignoredFolders are folders that npm and Python create in the folder of a plugin. If a template's
// folder contains one when this package is compiled, it may be embedded. New does not copy it.
var ignoredFolders = []string{"node_modules", "__pycache__"}

// addFolder adds the files of a folder of the templates.
func (o Options) addFolder(files map[string]string, root string) error {
	return fs.WalkDir(templates, root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains(ignoredFolders, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		relativePath := strings.TrimPrefix(name, root+"/")
		files[rename(relativePath, o.Name)], err = o.fileText(path.Ext(name), string(content))
		return err
	})
}
