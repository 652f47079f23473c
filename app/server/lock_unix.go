// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tenantry/tenantry/app/cli"
)

// Lock takes an exclusive lock on the file whose name is path with the suffix .lock. It creates the
// folder of the file if needed. It returns the function that releases the lock. It fails when a
// different process holds the lock, or when the file cannot be opened.
//
// The kernel releases the lock when the process exits, also after a crash. The file remains.
func Lock(path string) (release func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = cli.WithFix(fmt.Errorf("a different process of tenantry uses %s", filepath.Dir(path)),
			"stop that process, or use a different database (database_url or data_dir; for `tenantry dev` --data); several processes of `tenantry serve` can share PostgreSQL")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
