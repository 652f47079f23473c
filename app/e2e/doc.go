// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the built programs from outside: the service, the operator's commands, the
// plugins and the sandbox, over HTTP, on the command line and by killing processes. It has no
// code but tests.
//
// `make test-programs` builds what the tests start. Read harness_test.go first: it finds the
// programs and calls the API. shared_test.go starts sandboxes that several tests share,
// rig_test.go a service with a mail platform of the test's own, operator_test.go the operator's
// commands.
package e2e
