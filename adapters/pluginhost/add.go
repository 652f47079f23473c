// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/plugins/wire"
)

// describeTimeout limits how long a plugin may take to print its description. It is long, because
// the machine may be busy and the operator can wait.
const describeTimeout = time.Minute

// maxDescription is the maximum size of a description in bytes.
const maxDescription = 1 << 20

// Addition is the result of Add and Upgrade: the plugin as it is in the catalog now, and its
// description.
type Addition struct {
	Inspection
	Change   Change
	Previous CatalogEntry // empty if Change is Added
}

// Change says whether and how Add or Upgrade changed the catalog.
type Change string

// The values of Change.
const (
	Added     Change = "added"
	Replaced  Change = "replaced"
	Unchanged Change = "unchanged"
)

// ErrOtherKind means that the catalog has a plugin with the same name and a different kind.
var ErrOtherKind = errors.New("the catalog has a plugin with this name and a different kind")

// Add adds a plugin to the catalog of the folder o.Dir, or replaces the entry with the same name.
// file is the file to execute. If the folder of file has a manifest with file as its entry, the
// plugin is that folder. Otherwise the plugin is the file alone. The catalog stores the checksum of
// the plugin, and the host runs the plugin only if its files have this checksum. If the plugin is
// in a different folder, Add copies it to the plugin folder. It creates the plugin folder and the
// catalog if they do not exist. On Unix, concurrent calls for one folder change it one after the
// other.
//
// Add runs the plugin within o.Limits and o.Supervision to read its description and to check that
// it works with this host. Call Add only for files that the operator trusts. If the catalog already
// has the same entry and the files in the plugin folder are intact, Add changes nothing. Add fails
// if the file is not a working plugin, or if the catalog is invalid. It also fails if a different
// plugin of the catalog, or its first version, has the same file name. It fails with ErrOtherKind
// if the catalog has a plugin with the same name and a different kind. If only files of old versions
// cannot be deleted, the plugin is in the catalog, and Add returns both the addition and an error.
func Add(ctx context.Context, o Options, file string) (Addition, error) {
	return install(ctx, o, file, false)
}

// Upgrade is Add for a plugin that the catalog already has. It fails with ErrNotInCatalog if the
// catalog does not have the plugin. A service that runs with this plugin folder notices the new
// version (see Watch).
func Upgrade(ctx context.Context, o Options, file string) (Addition, error) {
	return install(ctx, o, file, true)
}

func install(ctx context.Context, o Options, file string, mustExist bool) (Addition, error) {
	dir := o.Dir
	inspection, source, err := readPlugin(ctx, file, o)
	if err != nil {
		return Addition{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Addition{}, err
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return Addition{}, err
	}
	defer unlock()
	entries, err := readCatalog(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Addition{}, err
	}
	addition := Addition{Inspection: inspection, Change: Added}
	if old, found := findEntry(entries, inspection.Name); found && old.Kind != inspection.Kind {
		return Addition{}, fmt.Errorf("%s: %w: %s is of kind %s, and this plugin is of kind %s", file, ErrOtherKind, old.Name, old.Kind, inspection.Kind)
	} else if found {
		addition.Change, addition.Previous = Replaced, old
		addition.File = fileOfVersion(dir, file, old, inspection.CatalogEntry)
	} else if mustExist {
		return Addition{}, fmt.Errorf("%s: %w: %q", file, ErrNotInCatalog, inspection.Name)
	}
	entry := addition.CatalogEntry
	for _, other := range entries {
		if other.Name != entry.Name && (other.File == entry.File || other.baseFile() == entry.baseFile()) {
			return Addition{}, fmt.Errorf("%s: the plugin %s of the catalog also has the file name %s", file, other.Name, entry.File)
		}
	}
	installed := filepath.Join(dir, entry.File)
	if entry == addition.Previous && verified.Check(installed, entry.SHA256) == nil {
		addition.Change = Unchanged
		return addition, nil
	}
	if err := verified.Install(source, entry.SHA256, installed); err != nil {
		return Addition{}, fmt.Errorf("%s: %w", file, err)
	}
	now := time.Now()
	if err := os.Chtimes(installed, now, now); err != nil { // deleteVersions keeps the versions that were added last
		return Addition{}, err
	}
	entries = slices.DeleteFunc(entries, func(old CatalogEntry) bool { return old.Name == entry.Name })
	entries = append(entries, entry)
	slices.SortFunc(entries, func(a, b CatalogEntry) int { return strings.Compare(a.Name, b.Name) })
	if err := writeCatalog(dir, entries); err != nil {
		return Addition{}, err
	}
	if err := deleteVersions(dir, entry.baseFile(), append(filesOf(entries), entry.baseFile(), addition.Previous.File), oldVersions); err != nil {
		return addition, fmt.Errorf("%s is in the catalog, but files of old versions are not deleted: %w", entry.Name, err)
	}
	return addition, nil
}

func findEntry(entries []CatalogEntry, name string) (CatalogEntry, bool) {
	i := slices.IndexFunc(entries, func(e CatalogEntry) bool { return e.Name == name })
	if i < 0 {
		return CatalogEntry{}, false
	}
	return entries[i], true
}

// fileOfVersion returns the file name for the new content of a plugin. Each version has its own
// file, so that a running service can use the old version again if the new version fails. Content
// that has not changed keeps its file name. A file that is in the plugin folder already keeps its
// name too, if both dir and file are absolute paths, or neither.
func fileOfVersion(dir, file string, old, added CatalogEntry) string {
	switch relativePath, err := filepath.Rel(dir, file); {
	case err == nil && relativePath == added.File:
		return added.File
	case strings.EqualFold(old.SHA256, added.SHA256):
		return old.File
	}
	return added.File + "-" + added.SHA256[:versionDigits]
}

// versionDigits is how many digits of the checksum are in the file name of a version. The file name
// of the first version has no digits of the checksum.
const versionDigits = 12

// baseFile returns the file name of the plugin without the digits of its version.
func (e CatalogEntry) baseFile() string {
	return strings.TrimSuffix(e.File, "-"+strings.ToLower(e.SHA256[:versionDigits]))
}

func filesOf(entries []CatalogEntry) (files []string) {
	for _, e := range entries {
		files = append(files, e.File)
	}
	return files
}

// oldVersions is how many versions stay in the plugin folder, in addition to the current, the
// previous and the first. A running service may still use one of them if several upgrades in a row
// failed.
const oldVersions = 2

// deleteVersions deletes the files and folders of a plugin's versions. It keeps those named in
// keep. Of the others, it keeps the newest, as many as newestKept. base is the file name without the
// digits of a version.
func deleteVersions(dir, base string, keep []string, newestKept int) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var versions []fs.FileInfo
	for _, f := range files {
		digits, hasPrefix := strings.CutPrefix(f.Name(), base+"-")
		_, err := hex.DecodeString(digits)
		if isVersion := f.Name() == base || hasPrefix && err == nil && len(digits) == versionDigits; !isVersion || slices.Contains(keep, f.Name()) {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		versions = append(versions, info)
	}
	slices.SortFunc(versions, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, version := range versions[min(newestKept, len(versions)):] {
		if err := os.RemoveAll(filepath.Join(dir, version.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes plugins from the catalog of a plugin folder, and deletes the files of their
// versions, except those that were added under a different file name. It returns the removed
// entries. If one of the plugins is not in the catalog, Remove fails with ErrNotInCatalog and
// changes nothing.
func Remove(dir string, names ...string) (removed []CatalogEntry, err error) {
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := readCatalog(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, ok := findEntry(entries, name)
		if !ok {
			return nil, fmt.Errorf("%w: %q", ErrNotInCatalog, name)
		}
		removed = append(removed, e)
		entries = slices.DeleteFunc(entries, func(e CatalogEntry) bool { return e.Name == name })
	}
	if err := writeCatalog(dir, entries); err != nil {
		return nil, err
	}
	for _, e := range removed {
		if err := deleteVersions(dir, e.baseFile(), filesOf(entries), 0); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// readPlugin returns the catalog entry and the description of a plugin. file is the file to
// execute. source is the file or folder of the plugin. readPlugin also starts the plugin as the
// service does, and fails when the plugin does not work.
func readPlugin(ctx context.Context, file string, o Options) (i Inspection, source string, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Inspection{}, "", errors.New("there is no such file")
	case err != nil:
		return Inspection{}, "", err
	case !info.Mode().IsRegular():
		return Inspection{}, "", errors.New("it is not a regular file")
	case info.Mode().Perm()&0o111 == 0:
		return Inspection{}, "", errors.New("it is not executable: run chmod +x on it")
	}
	if file, err = filepath.Abs(file); err != nil {
		return Inspection{}, "", err
	}
	source, sum, err := verified.Source(file)
	if err != nil {
		return Inspection{}, "", err
	}
	entry, err := describe(ctx, source, sum, filepath.Base(file), o.Limits)
	if err != nil {
		return Inspection{}, "", err
	}
	entry.SHA256, entry.File = sum, filepath.Base(file)
	if err := entry.check(); err != nil {
		return Inspection{}, "", fmt.Errorf("its description: %w", err)
	}
	sourceOptions := Options{Dir: filepath.Dir(source), Limits: o.Limits, Supervision: o.Supervision}.withDefaults()
	sourceEntry := entry
	sourceEntry.File = filepath.Base(source)
	d, err := (&Host{options: sourceOptions}).inspect(sourceEntry)
	if err != nil {
		return Inspection{}, "", fmt.Errorf("it does not work with this version of tenantry: %w", err)
	}
	return Inspection{CatalogEntry: entry, Description: d}, source, nil
}

// describe runs a plugin with the argument `describe`, without the host's environment. It returns
// the name, kind and version that the plugin prints as JSON.
func describe(ctx context.Context, source, sum, name string, limits wire.Limits) (entry CatalogEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	files, err := verified.Open(source, sum)
	if err != nil {
		return CatalogEntry{}, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	cmd := exec.CommandContext(ctx, files.Path(), "describe")
	cmd.Args[0], cmd.Env = name, []string{wire.SearchPath}
	stderr := &tail{}
	cmd.Stderr = stderr
	stdout, err := limits.Output(cmd, maxDescription)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return CatalogEntry{}, ctx.Err()
	case ctx.Err() != nil:
		return CatalogEntry{}, fmt.Errorf("it did not describe itself within %s", describeTimeout)
	case errors.Is(err, wire.ErrOutputTooLong):
		return CatalogEntry{}, fmt.Errorf("its description is longer than %d bytes", maxDescription)
	case err != nil:
		hint := ""
		if info, statErr := os.Stat(source); statErr == nil && !info.IsDir() {
			hint = "; a plugin of several files needs a manifest, see `tenantry plugin manifest --help`"
		}
		return CatalogEntry{}, fmt.Errorf("it does not describe itself: %w: %s%s", err, cmp.Or(stderr.lastLine(), "it printed no error"), hint)
	}
	var e CatalogEntry
	if err := json.Unmarshal(stdout, &e); err != nil {
		return e, errors.New("it is not a plugin: its description is not JSON")
	}
	return e, nil
}

// tail keeps the last maxTail bytes that were written to it.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(p), nil
}

const maxTail = 1024 // bytes

// lastLine returns the last line that has text. It quotes the line, because a plugin can print
// control characters.
func (t *tail) lastLine() string {
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return strconv.Quote(text[strings.LastIndexByte(text, '\n')+1:])
}

// writeCatalog replaces the catalog in one step: a reader sees either the old or the new content.
// Calls for one folder must not run at the same time, because they write the same temporary file.
func writeCatalog(dir string, entries []CatalogEntry) error {
	text, err := json.MarshalIndent(map[string]any{"plugins": entries}, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, catalogFile)
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
