// SPDX-License-Identifier: Apache-2.0

// Package conformance is the test suite that the author of a plugin runs against the built binary.
// It checks how the plugin describes itself, when its process exits, and which outcome it returns
// when its provider fails. It also runs the contract suite (package ports/contract) of the port
// that the plugin implements.
//
// There are two ways to run the suite. `tenantry plugin test` calls Test, which runs the checks of
// the plugin's kind. Test uses only the protocol, the commands and the simulator of the plugin, so
// the plugin can be written in any language. A Go test calls Plugin, Mail, DNS or Sending with a
// Binary. Mail, DNS and Sending also need an environment, which the test creates. SendingInProcess
// and DNSInProcess run the contract suite without a binary.
//
//   - suite.go: Options, Test and the list of checks. Start here. runner.go: how one check is run.
//   - conformance.go: Binary, and the entry points Plugin, Mail, DNS and DNSInProcess of Go tests.
//   - plugin.go: the checks of every plugin. lifecycle.go: the checks of the process. failures.go:
//     the checks with a provider that fails. account.go: the checks that call the provider and are
//     safe on a real account. calls.go: the read calls that failures.go and account.go make.
//   - environment.go: the environment of one check of Test. dnsenvironment.go: the environment and
//     more checks of a DNS provider. zoneserver.go: the zones of a check. tcp.go: providers that do
//     not speak HTTP.
//   - pace.go: keeps the calls of a DNS provider to its budgets.
//   - process.go: the simulator as a process. simulate.go: a simulator inside the test. faults.go:
//     Simulator.Fail, which makes the provider fail. server.go: servers on loopback.
//   - exchange.go: records the calls of a check, without secrets. encodedsecrets.go: the encoded
//     forms of secrets. report.go: Report and JUnit.
//   - sending.go: Sending and SendingInProcess, the checks of a sending platform's description, and
//     RetryAfter, the check that a Retry-After applies to all calls of a credential.
//   - sendingtest.go, mailtest.go: SimulateSending and SimulateMail, the environments of contract
//     suites. sendingsimulator.go: SendingSimulator, the checks of the simulator of a sending
//     platform.
//   - dnstest.go: SimulateDNS, the environment of the contract suite of a DNS provider.
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

// startTimeout and callTimeout are so long that even on a slow machine only a plugin that hangs
// exceeds them.
const (
	startTimeout = 4 * time.Minute
	callTimeout  = 4 * time.Minute
)

// stopTimeout is how long a plugin may take to exit before a check fails. It is longer than
// hostStopTimeout, because the machine may be slow. The tests of this package shorten stopTimeout,
// because they use plugins that never exit.
var stopTimeout = 30 * time.Second

// hostStopTimeout is how long the host waits before it kills a plugin that does not exit.
const hostStopTimeout = 2 * time.Second

// hostStartTimeout is how long the host waits before it kills a plugin that has not started. The
// tests of this package shorten hostStartTimeout.
var hostStartTimeout = 30 * time.Second

// handshakeTimeout is how long a plugin may take to start in Test. It is longer than
// hostStartTimeout, so that the other checks can run with a plugin that starts too slowly.
const handshakeTimeout = time.Minute

// cleanupTimeout is how long the process of a finished check may take to exit before it is killed.
const cleanupTimeout = 2 * time.Second

// T has the methods of a test that the suite uses. *testing.T implements T.
type T = contract.T

// Failure is a way in which a provider fails. The environment of a contract suite makes the
// provider fail in this way.
type Failure = contract.Failure

// Throttles rejects requests with 429, IsDown with 503, and Breaks with a different 5xx status.
// LosesRequest neither performs nor answers the request. LosesAnswer performs the request and does
// not answer.
const (
	Throttles    = contract.Throttles
	IsDown       = contract.IsDown
	Breaks       = contract.Breaks
	LosesRequest = contract.LosesRequest
	LosesAnswer  = contract.LosesAnswer
)

// Binary is the plugin under test.
type Binary struct {
	Path string
	// Connect returns a connection whose base URLs all start with baseURL. Its secrets have the
	// right form, but need not be valid. Only Mail and DNS use Connect. Mail requires it. If it
	// is nil, DNS does not run the checks with a provider that fails.
	Connect func(baseURL string) sdk.Connection

	exchange *exchange // records the calls, nil in a Go test
	pacer    *pacer    // delays the calls of a DNS provider
	limits   wire.Limits
	// isNotHTTP is true if the plugin does not use HTTP to call its provider.
	isNotHTTP bool
	zone      string // the zone that readCalls looks up; if empty, a zone that does not exist
}

// requireHTTP skips a check if the plugin does not use HTTP. Call it in checks that need an HTTP
// answer of the provider.
func (b Binary) requireHTTP(t T) {
	t.Helper()
	if b.isNotHTTP {
		t.Skipf("the plugin does not call its provider by HTTP")
	}
}

// Start starts the plugin through the plugin protocol and stops it when the test ends. In a Go
// test, the output of the plugin is copied to stderr. In Test, it is recorded. The test fails if
// the plugin does not start.
func (b Binary) Start(t T) *wire.Process {
	t.Helper()
	path, err := filepath.Abs(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	launch := wire.Launch{
		Exe: path, Name: filepath.Base(path), Timeout: startTimeout, Limits: b.limits, Env: append(inheritedVariables(pluginVariables), wire.SearchPath),
		OnLine: func(line []byte) { _, _ = os.Stderr.Write(append(line, '\n')) },
	}
	if b.exchange != nil {
		launch.Timeout, launch.OnLine, launch.OnOutcome = handshakeTimeout, b.exchange.recordOutput, b.exchange.checkTexts
	}
	p, err := wire.Start(launch)
	if err != nil {
		t.Fatalf("start %s: %v", b.Path, err)
	}
	t.Cleanup(func() { p.Stop(cleanupTimeout) })
	return p
}

// open returns an Opener whose sessions all use the running plugin p and the connection c.
func open(p *wire.Process, c sdk.Connection) wire.Opener {
	return func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	}
}

func (b Binary) mail(p *wire.Process, c sdk.Connection) sdk.MailPlatform {
	return wire.MailClient(open(p, c), b.exchange.interceptors(c)...)
}

func (b Binary) dns(p *wire.Process, c sdk.Connection) sdk.DNSProvider {
	return wire.DNSClient(open(p, c), append(b.pacer.interceptors(c), b.exchange.interceptors(c)...)...)
}

func (b Binary) sending(p *wire.Process, c sdk.Connection) sdk.SendingPlatform {
	return wire.SendingClient(open(p, c), b.exchange.interceptors(c)...)
}

// Platform returns the mail platform that the running plugin p serves for the connection c.
func Platform(p *wire.Process, c sdk.Connection) sdk.MailPlatform { return Binary{}.mail(p, c) }

// Provider returns the DNS provider that the running plugin p serves for the connection c.
func Provider(p *wire.Process, c sdk.Connection) sdk.DNSProvider { return Binary{}.dns(p, c) }

// SendingPlatform returns the sending platform that the running plugin p serves for the connection
// c.
func SendingPlatform(p *wire.Process, c sdk.Connection) sdk.SendingPlatform {
	return Binary{}.sending(p, c)
}

// check is a check that calls only the plugin, not its simulator.
type check = contract.Check[Binary]

// Plugin runs the checks that apply to every plugin.
func Plugin[R contract.Runner[R]](t R, b Binary) {
	for _, c := range pluginChecks {
		t.Run(c.ID, func(t R) { c.Run(t, b) })
	}
}

// runFailureChecks runs the plugin against providers that fail (see failureChecks).
func runFailureChecks[R contract.Runner[R]](t R, b Binary, kind string) {
	for _, c := range failureChecks(kind) {
		t.Run(c.ID, func(t R) {
			t.Parallel() // the checks mostly wait
			c.Run(t, b)
		})
	}
}

// Mail runs the checks of Plugin, the checks with a provider that fails, and the contract suite of
// a mail platform. newFixture returns the environment in which the contract suite runs. It should
// use the plugin's simulator, and call newPlatform to get platforms that the running plugin serves.
func Mail[R contract.Runner[R]](t R, b Binary, newFixture func(t T, newPlatform func(sdk.Connection) sdk.MailPlatform) contract.MailPlatformEnv) {
	Plugin(t, b)
	t.Run("provider failures", func(t R) { runFailureChecks(t, b, string(wire.KindMail)) })
	t.Run("the contract of the port", func(t R) {
		p := b.Start(t)
		fixture := newFixture(t, func(c sdk.Connection) sdk.MailPlatform { return Platform(p, c) })
		contract.MailPlatform(t, func(T) contract.MailPlatformEnv { return fixture })
	})
}

// DNS runs the checks of Plugin, the checks with a provider that fails, and the contract suite of a
// DNS provider. newFixture returns the environment in which the contract suite runs. It should call
// newProvider to get providers that the running plugin serves. DNS delays the calls of these
// providers so that the calls do not exceed the budgets in the description.
func DNS[R contract.Runner[R]](t R, b Binary, newFixture func(t T, newProvider func(sdk.Connection) sdk.DNSProvider) contract.DNSProviderEnv) {
	Plugin(t, b)
	if b.Connect != nil {
		t.Run("provider failures", func(t R) { runFailureChecks(t, b, string(wire.KindDNS)) })
	}
	t.Run("the contract of the port", func(t R) {
		p := b.Start(t)
		paced := Binary{pacer: newPacer(describe(t, p).Budgets)}
		fixture := newFixture(t, func(c sdk.Connection) sdk.DNSProvider { return paced.dns(p, c) })
		contract.DNSProvider(t, func(T) contract.DNSProviderEnv { return fixture })
	})
}

// DNSInProcess runs the contract suite of a DNS provider inside the test process. The providers of
// the fixture call the plugin's code. newFixture may return the same fixture for every check,
// because each check uses its own zone.
func DNSInProcess[R contract.Runner[R]](t R, newFixture func(T) DNSFixture) {
	contract.DNSProvider(t, newFixture)
}
