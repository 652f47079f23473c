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

// lock makes two rotations of one keyset come one after the other. It holds
// the folder, as the file itself is replaced.
func lock(path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil
}

// sameOwner gives a file the owner of another one: a keyset that root rotates
// stays readable for the service.
func sameOwner(path string, like fs.FileInfo) error {
	owner, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
