// SPDX-License-Identifier: Apache-2.0

//go:build !failpoints

// Package failpoint marks the points in use cases at which tests kill the process. A test checks that
// the service recovers when it starts again.
//
//   - failpoint.go: Hit without the build tag `failpoints`, as in every release. It does nothing.
//   - failpoint_on.go: Hit with the tag. It kills the process if the point is armed.
package failpoint

// Hit marks the crash point with this name. Built without the tag `failpoints` it does nothing.
func Hit(string) {}
