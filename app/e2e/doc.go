// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the built programs from outside: the service, the operator's commands, the
// plugins and the sandbox. It uses HTTP and the command line, and it kills processes. All its code
// is for tests.
//
// `make test-programs` builds the programs. These files have what most tests share:
//
//   - fixture_client_test.go: programs are built binaries. client sends requests to a service.
//     Start here.
//   - fixture_process_test.go: process is a started program, with its log.
//   - fixture_sandbox_test.go: sharedSandbox returns the sandbox (`tenantry dev`) that tests share.
//   - fixture_account_test.go: caller is an account. accountTenant is an account with one of its
//     simulated tenants.
//   - fixture_service_test.go: serviceFixture starts `tenantry serve` with a mail platform and DNS
//     that run inside the test.
//   - fixture_onboarding_test.go: onboarding takes a tenant to working mailboxes in a
//     restartingSandbox, which tests kill.
//   - fixture_browser_test.go: browser and administrator walk through the connect pages.
//   - cli_operator_test.go: runTenantry runs a command and returns its commandResult.
//
// Each other fixture file belongs to one subject: doctor, integrations, webhooks, DNS zones, the
// authorization matrix, or the journey of a tenant at a failing mail platform. Files that begin
// with bench_ have the benchmarks. The other files are named for the subject of their tests. The
// folder testdata has the authorization matrix and the programs that tests run.
//
// With TENANTRY_SOAK=1, tests use all their cases instead of a random sample. Some tests then also
// run longer or check durations.
package e2e
