// SPDX-License-Identifier: Apache-2.0

//go:build !failpoints

// Package failpoint lets a test kill the process before or after a call of a port. The test checks
// that the service recovers when it starts again. adapters/bunstore passes the name of each
// operation on the database, app/wiring the name of each provider call.
//
//   - failpoint.go: without the build tag `failpoints`, as in every release. Nothing happens.
//   - failpoint_on.go: with the tag. The process is killed at the points that are armed.
package failpoint

// Before is the point before a call. Built without the tag `failpoints` it does nothing.
func Before(string) {}

// After is the point after a successful call. Built without the tag `failpoints` it does nothing.
func After(string) {}
