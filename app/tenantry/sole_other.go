// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

// soleServer does nothing: a second server is for the operator to avoid.
func soleServer(string) (release func() error, err error) {
	return func() error { return nil }, nil
}
