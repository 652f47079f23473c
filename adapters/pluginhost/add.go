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

// describeTime bounds how long a plugin may take to say what it is.
const describeTime = 10 * time.Second

// Add puts a plugin binary into the catalog of a plugin folder, in place of
// the entry with its name: from then on exactly this content may run. A binary
// from elsewhere is copied into the folder. Add runs the binary to ask for its
// description, so it is for files that the operator trusts.
func Add(ctx context.Context, dir, file string) (Entry, error) {
	e, err := describe(ctx, file)
	if err != nil {
		return e, fmt.Errorf("%s: %w", file, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return e, err
	}
	sum := sha256.Sum256(content)
	e.SHA256, e.File = hex.EncodeToString(sum[:]), filepath.Base(file)
	if err := e.check(); err != nil {
		return e, fmt.Errorf("%s: %w", file, err)
	}
	if err := bring(content, file, filepath.Join(dir, e.File)); err != nil {
		return e, err
	}
	all, err := readCatalog(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	all = slices.DeleteFunc(all, func(old Entry) bool { return old.Name == e.Name })
	all = append(all, e)
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return e, writeCatalog(dir, all)
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
	if err != nil {
		return Entry{}, fmt.Errorf("it does not describe itself: %w", err)
	}
	var e Entry
	if err := json.Unmarshal(out, &e); err != nil {
		return e, fmt.Errorf("its description is not JSON: %w", err)
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
