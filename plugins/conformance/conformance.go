// SPDX-License-Identifier: Apache-2.0

// Package conformance is the test suite that the author of a plugin runs against the built binary.
// The suites check how the plugin describes itself, when its process exits, which outcome each
// failure of its provider has, and the contract of the port that it implements.
//
// An author calls Plugin, Mail, DNS or Sending from a test, with a Binary. SendingInProcess runs
// the contract of a sending platform without a binary.
//
//   - conformance.go: Binary, and the entry points Plugin, Mail and DNS. Start here.
//   - sending.go: Sending and SendingInProcess, and the checks of a sending platform's description.
//   - plugin.go: the checks that every plugin passes.
//   - mailfailures.go: the checks of a mail plugin whose provider fails.
//   - simulate.go: Simulate, which starts a plugin's simulator inside the test.
//   - sendingtest.go: SimulateSending, the same for a sending platform, with the environment of the
//     contract. sendingsimulator.go: SendingSimulator, the checks of such a simulator.
//   - retryafter.go: RetryAfter, the check that a Retry-After holds back all calls of a credential.
//   - faults.go: Simulator.Fail, which makes the simulated provider fail.
package conformance

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// startTimeout and callTimeout are long enough for a slow machine: only a plugin that hangs exceeds
// them.
const (
	startTimeout = 4 * time.Minute
	callTimeout  = 4 * time.Minute
)

// stopTimeout is how long a plugin may take to exit before it is killed. The tests of this package
// shorten it for plugins that never exit.
var stopTimeout = 4 * time.Minute

// T is what the suites use of a test. *testing.T implements it.
type T = contract.T

// Binary is the plugin under test.
type Binary struct {
	Path string
	// Connect returns a connection whose base URLs all start with baseURL. Its credentials have the
	// right form and need not be valid. Mail requires it.
	Connect func(baseURL string) sdk.Connection
}

// Start starts the plugin as the host does and stops it when the test ends. The output of the
// plugin is copied to stderr. The test fails when the plugin does not start.
func (b Binary) Start(t T) *wire.Process {
	t.Helper()
	path, err := filepath.Abs(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wire.Start(wire.Launch{
		Exe: path, Name: filepath.Base(path), Timeout: startTimeout,
		Line: func(line []byte) { _, _ = os.Stderr.Write(append(line, '\n')) },
	})
	if err != nil {
		t.Fatalf("start %s: %v", b.Path, err)
	}
	t.Cleanup(func() { p.Stop(stopTimeout) })
	return p
}

// Platform returns the mail platform that the running plugin p serves for the connection c.
func Platform(p *wire.Process, c sdk.Connection) sdk.MailPlatform {
	return wire.Mail(func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	})
}

// check is one requirement of a plugin.
type check struct {
	name string
	run  func(t T, b Binary)
}

// Plugin runs the checks that apply to every plugin.
func Plugin[R contract.Runner[R]](t R, b Binary) {
	for _, c := range pluginChecks {
		t.Run(c.name, func(t R) { c.run(t, b) })
	}
}

// Mail runs the checks of Plugin, the checks of a failing provider and the contract of a mail
// platform. newFixture returns the environment of the contract, best built on the plugin's
// simulator. It calls newPlatform to get platforms that the running plugin serves.
func Mail[R contract.Runner[R]](t R, b Binary, newFixture func(t T, newPlatform func(sdk.Connection) sdk.MailPlatform) contract.MailPlatformEnv) {
	Plugin(t, b)
	t.Run("provider failures", func(t R) {
		for _, c := range mailFailureChecks {
			t.Run(c.name, func(t R) {
				t.Parallel() // the checks mostly wait
				c.run(t, b)
			})
		}
	})
	t.Run("the contract of the port", func(t R) {
		p := b.Start(t)
		fixture := newFixture(t, func(c sdk.Connection) sdk.MailPlatform { return Platform(p, c) })
		contract.MailPlatform(t, func(T) contract.MailPlatformEnv { return fixture })
	})
}

// Provider returns the DNS provider that the running plugin p serves for the connection c.
func Provider(p *wire.Process, c sdk.Connection) sdk.DNSProvider {
	return wire.DNS(func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	})
}

// DNS runs the checks of Plugin and the contract of a DNS provider. newFixture returns the
// environment of the contract. It calls newProvider to get providers that the running plugin
// serves.
func DNS[R contract.Runner[R]](t R, b Binary, newFixture func(t T, newProvider func(sdk.Connection) sdk.DNSProvider) contract.DNSProviderEnv) {
	Plugin(t, b)
	t.Run("the contract of the port", func(t R) {
		p := b.Start(t)
		fixture := newFixture(t, func(c sdk.Connection) sdk.DNSProvider { return Provider(p, c) })
		contract.DNSProvider(t, func(T) contract.DNSProviderEnv { return fixture })
	})
}
