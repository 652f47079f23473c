// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pluginhost

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder makes concurrent changes of one plugin folder run one after the other. The kernel also
// releases the lock when the process exits.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
