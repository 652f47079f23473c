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

// describeTime bounds how long a plugin may take to describe itself, and to
// start after that. An operator waits for it, so a busy machine gets its time.
const describeTime = time.Minute

// Addition is what Add did to the catalog.
type Addition string

// The outcomes of Add.
const (
	Added     Addition = "added"
	Replaced  Addition = "replaced"
	Unchanged Addition = "unchanged"
)

// Add puts a plugin binary into the catalog of a plugin folder, in place of
// the entry with its name: from then on exactly this content may run. A binary
// from elsewhere is copied into the folder. Add runs the binary to ask for its
// description and to see that it speaks with the host, so it is for files that
// the operator trusts. Adding the same file again changes nothing.
func Add(ctx context.Context, dir, file string) (Entry, Addition, error) {
	e, content, err := examine(ctx, file)
	if err != nil {
		return e, "", fmt.Errorf("%s: %w", file, err)
	}
	all, err := readCatalog(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, "", err
	}
	done := Added
	for _, old := range all {
		if old.Name == e.Name {
			done = Replaced
		} else if old.File == e.File {
			return e, "", fmt.Errorf("%s: the plugin %s of the catalog has the file name %s too", file, old.Name, e.File)
		}
	}
	if slices.Contains(all, e) && isContent(dir, e) {
		return e, Unchanged, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return e, "", err
	}
	if err := bring(content, file, filepath.Join(dir, e.File)); err != nil {
		return e, "", err
	}
	all = slices.DeleteFunc(all, func(old Entry) bool { return old.Name == e.Name })
	all = append(all, e)
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return e, done, writeCatalog(dir, all)
}

func isContent(dir string, e Entry) bool {
	f, err := openVerified(dir, e)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// examine makes the catalog's entry of a file, by what the file says of itself
// and by talking with it as the service would.
func examine(ctx context.Context, file string) (Entry, []byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, nil, errors.New("there is no such file")
	case err != nil:
		return Entry{}, nil, err
	case !info.Mode().IsRegular():
		return Entry{}, nil, errors.New("it is no file")
	case info.Mode().Perm()&0o111 == 0:
		return Entry{}, nil, errors.New("it may not be executed: chmod +x it")
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
	o := Options{Dir: filepath.Dir(file), Patience: Patience{Start: describeTime}}.orDefaults()
	if _, err := (&Host{options: o}).inspect(e); err != nil {
		return e, nil, fmt.Errorf("it does not speak with this version of tenantry: %w", err)
	}
	return e, content, nil
}

func describe(ctx context.Context, file string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
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
		return Entry{}, fmt.Errorf("it did not describe itself within %s", describeTime)
	case err != nil:
		return Entry{}, fmt.Errorf("it does not describe itself: %w", err)
	}
	var e Entry
	if err := json.Unmarshal(out, &e); err != nil {
		return e, errors.New("its description is not JSON, so it is no plugin")
	}
	return e, nil
}

// bring copies the content to where the catalog wants it, unless it is there.
func bring(content []byte, from, to string) error {
	if a, err := os.Stat(from); err == nil {
		if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	return replace(to, content, 0o755)
}

func writeCatalog(dir string, all []Entry) error {
	text, err := json.MarshalIndent(map[string]any{"plugins": all}, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, catalogFile), append(text, '\n'), 0o644)
}

// replace writes a file in one step: readers see the old or the new one.
func replace(path string, content []byte, mode fs.FileMode) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
