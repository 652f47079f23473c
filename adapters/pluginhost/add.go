// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Add adds a plugin binary to the catalog of a plugin folder and replaces the entry with the same
// name. The catalog stores the checksum, so the host runs only a file with this content. Add copies
// a binary from a different folder into the plugin folder. It creates a missing folder and catalog.
// Concurrent calls for one folder change it one after the other.
//
// Add runs the binary to read its description and to check that it works with this host. Use Add
// only for files that the operator trusts. Adding the same file again changes nothing. Add fails
// when the file is not a working plugin, when a different plugin of the catalog has the same file
// name, and when the catalog is invalid.
func Add(ctx context.Context, dir, file string) (Entry, Addition, error) {
	e, content, err := readPlugin(ctx, file)
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
	if slices.Contains(all, e) && hasContent(dir, e) {
		return e, Unchanged, nil
	}
	if err := copyInto(content, file, filepath.Join(dir, e.File)); err != nil {
		return e, "", err
	}
	all = slices.DeleteFunc(all, func(old Entry) bool { return old.Name == e.Name })
	all = append(all, e)
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return e, change, writeCatalog(dir, all)
}

// hasContent reports whether the file of an entry exists and has the entry's checksum.
func hasContent(dir string, e Entry) bool {
	f, err := openVerified(dir, e)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// readPlugin returns the content of a plugin's file, and the catalog entry that the plugin
// describes. It also starts the plugin as the service does, and fails when the plugin does not
// start.
func readPlugin(ctx context.Context, file string) (Entry, []byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, nil, errors.New("there is no such file")
	case err != nil:
		return Entry{}, nil, err
	case !info.Mode().IsRegular():
		return Entry{}, nil, errors.New("it is not a regular file")
	case info.Mode().Perm()&0o111 == 0:
		return Entry{}, nil, errors.New("it is not executable: run chmod +x on it")
	}
	e, err := describe(ctx, file)
	if err != nil {
		return e, nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return e, nil, err
	}
	sum := sha256.Sum256(content)
	e.SHA256, e.File = hex.EncodeToString(sum[:]), filepath.Base(file)
	if err := e.check(); err != nil {
		return e, nil, fmt.Errorf("its description: %w", err)
	}
	o := Options{Dir: filepath.Dir(file), Supervision: SupervisionPolicy{StartTimeout: describeTimeout}}.withDefaults()
	if _, err := (&Host{options: o}).inspect(e); err != nil {
		return e, nil, fmt.Errorf("it does not work with this version of tenantry: %w", err)
	}
	return e, content, nil
}

// describe runs the file with the argument `describe` and an empty environment, and returns the
// entry that it prints as JSON.
func describe(ctx context.Context, file string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	path, err := filepath.Abs(file)
	if err != nil {
		return Entry{}, err
	}
	cmd := exec.CommandContext(ctx, path, "describe")
	cmd.Env = []string{}
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

// copyInto writes content, which was read from the file from, to the file to. It does nothing when
// both paths are the same file.
func copyInto(content []byte, from, to string) error {
	if a, err := os.Stat(from); err == nil {
		if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	return writeAtomically(to, content, 0o755)
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
