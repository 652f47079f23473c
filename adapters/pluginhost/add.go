// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
)

// describeTimeout limits how long a plugin may take to describe itself, and then to start. It is
// long because Add may run on a busy machine, and its caller is a person who can wait.
const describeTimeout = time.Minute

// Addition is the change that Add made to the catalog.
type Addition string

// The changes that Add makes.
const (
	Added     Addition = "added"
	Replaced  Addition = "replaced"
	Unchanged Addition = "unchanged"
)

// Add adds the plugin that file starts to the catalog of a plugin folder and replaces the entry with
// the same name. If the folder of file has a manifest for it, the plugin is that folder, otherwise
// the file alone. The catalog stores the checksum, so the host runs only files with this content.
// Add copies a plugin from a different folder into the plugin folder. It creates a missing folder
// and catalog. Concurrent calls for one folder change it one after the other.
//
// Add runs the plugin to read its description and to check that it works with this host. Use Add
// only for files that the operator trusts. Adding the same file again changes nothing. Add fails
// when the file is not a working plugin, when a different plugin of the catalog has the same file
// name, and when the catalog is invalid.
func Add(ctx context.Context, dir, file string) (Entry, Addition, error) {
	e, source, err := readPlugin(ctx, file)
	if err != nil {
		return e, "", fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return e, "", err
	}
	unlock, err := lock(dir)
	if err != nil {
		return e, "", err
	}
	defer unlock()
	all, err := readCatalog(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, "", err
	}
	change := Added
	for _, old := range all {
		if old.Name == e.Name {
			change = Replaced
		} else if old.File == e.File {
			return e, "", fmt.Errorf("%s: the plugin %s of the catalog has the file name %s too", file, old.Name, e.File)
		}
	}
	installed := filepath.Join(dir, e.File)
	if slices.Contains(all, e) && verified.Check(installed, e.SHA256) == nil {
		return e, Unchanged, nil
	}
	if err := verified.Install(source, e.SHA256, installed); err != nil {
		return e, "", fmt.Errorf("%s: %w", file, err)
	}
	all = slices.DeleteFunc(all, func(old Entry) bool { return old.Name == e.Name })
	all = append(all, e)
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return e, change, writeCatalog(dir, all)
}

// readPlugin returns the plugin that a file starts, and the catalog entry that the plugin describes.
// It also starts the plugin as the service does, and fails when the plugin does not start.
func readPlugin(ctx context.Context, file string) (entry Entry, source string, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, "", errors.New("there is no such file")
	case err != nil:
		return Entry{}, "", err
	case !info.Mode().IsRegular():
		return Entry{}, "", errors.New("it is not a regular file")
	case info.Mode().Perm()&0o111 == 0:
		return Entry{}, "", errors.New("it is not executable: run chmod +x on it")
	}
	if file, err = filepath.Abs(file); err != nil {
		return Entry{}, "", err
	}
	source, sum, err := verified.Source(file)
	if err != nil {
		return Entry{}, "", err
	}
	e, err := describe(ctx, source, sum, filepath.Base(file))
	if err != nil {
		return e, "", err
	}
	e.SHA256, e.File = sum, filepath.Base(file)
	if err := e.check(); err != nil {
		return e, "", fmt.Errorf("its description: %w", err)
	}
	o := Options{Dir: filepath.Dir(source), Supervision: SupervisionPolicy{StartTimeout: describeTimeout}}.withDefaults()
	inSource := e
	inSource.File = filepath.Base(source)
	if _, err := (&Host{options: o}).inspect(inSource); err != nil {
		return e, "", fmt.Errorf("it does not work with this version of tenantry: %w", err)
	}
	return e, source, nil
}

// describe runs a plugin with the argument `describe` and the environment of a plugin without any
// variable of the host. It returns the entry that the plugin prints as JSON.
func describe(ctx context.Context, source, sum, name string) (entry Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	files, err := verified.Open(source, sum)
	if err != nil {
		return Entry{}, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	cmd := exec.CommandContext(ctx, files.Path(), "describe")
	cmd.Args[0], cmd.Env = name, []string{searchPath}
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return Entry{}, fmt.Errorf("it did not describe itself within %s", describeTimeout)
	case err != nil:
		return Entry{}, fmt.Errorf("it does not describe itself: %w", err)
	}
	var e Entry
	if err := json.Unmarshal(out, &e); err != nil {
		return e, errors.New("it is not a plugin: its description is not JSON")
	}
	return e, nil
}

func writeCatalog(dir string, all []Entry) error {
	text, err := json.MarshalIndent(map[string]any{"plugins": all}, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomically(filepath.Join(dir, catalogFile), append(text, '\n'), 0o644)
}

// writeAtomically replaces a file in one step: readers see the old content or the new content. The
// caller holds the lock of the folder, so no other process writes the temporary file.
func writeAtomically(path string, content []byte, mode fs.FileMode) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
