// SPDX-License-Identifier: Apache-2.0

//go:build unix

package secrets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lockDirectory makes concurrent rotations of one keyset run one after the other. It locks the
// directory, because the file itself is replaced.
func lockDirectory(keysetPath string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(keysetPath))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil
}

// copyOwner gives the file at path the owner of reference. After root has rotated a keyset, the
// service can then still read it.
func copyOwner(path string, reference fs.FileInfo) error {
	owner, ok := reference.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
