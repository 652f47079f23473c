// SPDX-License-Identifier: Apache-2.0

//go:build !failpoints

// Package failpoint lets a test kill the process before or after a call of a port. The test checks
// that the service recovers when it starts again. adapters/bunstore passes the name of each
// operation on the database. app/wiring passes the name of each provider call, and "webhook send".
//
//   - failpoint.go is built without the tag `failpoints`, as in every release. Its functions do
//     nothing.
//   - failpoint_on.go is built with the tag. Its functions kill the process at the points that the
//     environment variable TENANTRY_FAILPOINTS lists.
package failpoint

// Before is the point before a call. Built without the tag `failpoints` it does nothing.
func Before(string) {}

// After is the point after a successful call. Built without the tag `failpoints` it does nothing.
func After(string) {}
