// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package server

// Lock does nothing on this platform and never fails. The operator must not start two processes on
// one SQLite database.
func Lock(string) (release func() error, err error) {
	return func() error { return nil }, nil
}
