// SPDX-License-Identifier: Apache-2.0

// Package verified checks the files of a plugin against the catalog, and returns a path from which
// the host can execute the checked files.
//
// A plugin is one file or a folder. The checksum of a file is its SHA-256. The checksum of a folder
// is the SHA-256 of its manifest, plugin.json, which lists the plugin's other files with their
// SHA-256. The checksum does not cover the interpreter and the libraries of the system.
//
//   - verified.go: Open, Check and Install. Start here.
//   - manifest.go: Manifest; WriteManifest, which creates one; Source, which finds one.
package verified

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// ErrChecksum means that a file of a plugin does not have the checksum of the catalog or of the
// manifest.
var ErrChecksum = errors.New("the file is not the one in the catalog (SHA-256 differs)")

// Plugin is an opened plugin. Its files had the right checksums when Open read them.
type Plugin struct {
	path       string
	executable *os.File // the open binary, nil if the plugin runs in privateDir
	privateDir string   // the private folder with copies of the files, "" for a binary
}

// Path returns the path that executes the plugin. It is valid until Close.
func (p *Plugin) Path() string { return p.path }

// Close releases the files of the plugin. Call it when the process has exited.
func (p *Plugin) Close() error {
	var err error
	if p.executable != nil {
		err = p.executable.Close()
	}
	if p.privateDir != "" {
		err = errors.Join(err, os.RemoveAll(p.privateDir))
	}
	return err
}

// Open checks the files of the plugin at path and returns the plugin, ready to be executed. It
// fails with ErrChecksum when a checksum differs, and with fs.ErrNotExist when a file is missing.
//
// On Linux, a binary is executed from the open file that was checked, even if the file at path is
// replaced afterwards. For other systems see executablePath. The interpreter of a script opens
// files by their paths, after the check. Therefore Open copies a script or a folder to a private
// folder during the check, and the copy is executed. A file that the manifest does not list is not
// copied.
func Open(path, sum string) (*Plugin, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.IsDir() {
		var script bool
		if script, err = isScript(file); err == nil && !script {
			return openBinary(file, sum)
		}
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	privateDir, err := os.MkdirTemp("", "tenantry-plugin-")
	if err != nil {
		return nil, fmt.Errorf("make the private folder of a plugin: %w", err)
	}
	p := &Plugin{privateDir: privateDir}
	entry, err := copyTo(privateDir, path, sum)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.path = filepath.Join(privateDir, entry)
	return p, nil
}

// openBinary checks an opened binary, and closes it after an error.
func openBinary(file *os.File, sum string) (*Plugin, error) {
	if err := copyVerified(file, sum, io.Discard); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Plugin{path: executablePath(file), executable: file}, nil
}

// isScript reports whether a file names its interpreter in the first line. It does not move the
// offset of the file.
func isScript(file *os.File) (bool, error) {
	var start [2]byte
	_, err := file.ReadAt(start[:], 0)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return string(start[:]) == "#!", err
}

// executablePath returns a path that executes the open file. On Linux the path refers to the
// descriptor of the host's process, because the child process may have a different number for it.
// On other systems it is the path of the file, so a different file can be executed if the file is
// replaced. Only the permissions of the folder prevent this.
func executablePath(f *os.File) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	}
	return f.Name()
}

// Check reads the files of the plugin at path and compares their checksums. It fails with the
// errors of Open.
func Check(path, sum string) error {
	return eachFile(path, sum, func(_ string, file io.Reader, sum string) error {
		return copyVerified(file, sum, io.Discard)
	})
}

// Install checks the files of the plugin at path and copies them to the path target, where it
// replaces an existing file or folder. It does nothing when path and target are the same file or
// folder. It fails with the errors of Open.
func Install(path, sum, target string) error {
	if isSameFile(path, target) {
		return nil
	}
	temporaryFolder := target + ".new"
	if err := os.RemoveAll(temporaryFolder); err != nil {
		return err
	}
	if err := os.Mkdir(temporaryFolder, 0o755); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporaryFolder) }()
	entry, err := copyTo(temporaryFolder, path, sum)
	if err != nil {
		return err
	}
	copiedPath := filepath.Join(temporaryFolder, entry)
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() {
		copiedPath = temporaryFolder
	}
	// os.Rename can replace a file by a file in one step. It cannot replace a folder, or a file by
	// a folder, so the target is removed first.
	if info, err := os.Stat(target); err == nil && (info.IsDir() || copiedPath == temporaryFolder) {
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	return os.Rename(copiedPath, target)
}

func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// copyTo checks the files of the plugin at path and copies them to a folder. It returns the name of
// the file to execute.
func copyTo(folder, path, sum string) (entry string, err error) {
	err = eachFile(path, sum, func(name string, file io.Reader, sum string) error {
		if entry == "" { // the first file
			entry = name
		}
		target := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if name == entry {
			mode = 0o755
			// A process that starts while the file is open for writing inherits the open file for a
			// moment. Linux does not execute a file that is open for writing. While this lock is
			// held, no process starts.
			syscall.ForkLock.RLock()
			defer syscall.ForkLock.RUnlock()
		}
		targetFile, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		return errors.Join(copyVerified(file, sum, targetFile), targetFile.Close())
	})
	return entry, err
}

// eachFile calls visit for each file of the plugin at path. It passes the name relative to the
// folder of the plugin, and the checksum that the file must have. The first file is the file to
// execute. The last file of a folder is the manifest.
func eachFile(path, sum string, visit func(name string, file io.Reader, sum string) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(visit(filepath.Base(path), file, sum), file.Close())
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	text, manifest, err := readManifest(root, sum)
	if err != nil {
		return fmt.Errorf("%s: %w", ManifestFile, err)
	}
	for _, name := range manifest.fileNames() {
		file, err := root.Open(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		if err := errors.Join(visit(name, file, manifest.Files[name]), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return visit(ManifestFile, bytes.NewReader(text), sum)
}

// copyVerified copies a file to out. If the SHA-256 of the file is not sum, it fails with
// ErrChecksum after it has written the content to out.
func copyVerified(file io.Reader, sum string, out io.Writer) error {
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(hash, out), file); err != nil {
		return fmt.Errorf("read the plugin: %w", err)
	}
	if hex.EncodeToString(hash.Sum(nil)) != strings.ToLower(sum) {
		return ErrChecksum
	}
	return nil
}
