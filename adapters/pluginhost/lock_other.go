// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package pluginhost

// lock does nothing on this system: the operator must not add two plugins at the same time.
func lock(string) (unlock func(), err error) { return func() {}, nil }
