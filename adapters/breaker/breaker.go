// SPDX-License-Identifier: Apache-2.0

// Package breaker stops calls to a provider that fails, with circuit breakers of gobreaker. After
// several failures in a row a circuit opens, and calls return at once. After a pause one read tests
// whether the provider works again.
//
// A Breaker holds the circuits of one provider, one for each fault domain: a tenant, a credential,
// or the provider as a whole. Its Interceptor runs around each call (see plugins/wire). It also
// counts the call against the provider's budgets, and records in ports.Effects whether the provider
// was called. The interceptor knows no method by name: whether a call is a read comes from the
// .proto files.
//
//   - breaker.go: Breaker, Options and the fault domains. Start here.
//   - circuit.go: one circuit, and which outcomes count as failures.
//   - registry.go: the circuits by fault domain, up to a maximum.
package breaker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/plugins/wire"
)

// Options configure the circuits of one provider. Zero values mean the defaults.
type Options struct {
	Provider string
	Log      *slog.Logger
	// Failures in a row open a circuit. The default is 5.
	Failures int
	// Window is the time in which failures are counted. The default is 2 minutes. A circuit also
	// opens when 2 × Failures calls failed in the window and these are at least half of its calls.
	Window time.Duration
	// Open is how long a circuit stays open. The default is 30 seconds.
	Open time.Duration
	// Budget counts a call against what the provider allows, before it is sent. domain is the
	// fault domain that pays, operation is wire.Call.Operation. If the call exceeds a budget,
	// Budget returns false and the time until a retry can succeed. nil allows all calls.
	Budget func(ctx context.Context, domain, operation string) (retryIn time.Duration, ok bool)
	// Domains is the maximum number of circuits. The least recently used circuit is dropped first.
	// The default is 4096.
	Domains int
}

func (o Options) orDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.Window <= 0 {
		o.Window = 2 * time.Minute
	}
	if o.Open <= 0 {
		o.Open = 30 * time.Second
	}
	if o.Budget == nil {
		o.Budget = func(context.Context, string, string) (time.Duration, bool) { return 0, true }
	}
	if o.Domains <= 0 {
		o.Domains = 4096
	}
	return o
}

// Breaker holds the circuits of one provider.
type Breaker struct{ circuits *registry }

// New returns a Breaker without circuits. A circuit is created by the first call of its domain.
func New(o Options) *Breaker { return &Breaker{newRegistry(o.orDefaults())} }

// FaultDomain returns the fault domain whose circuit a call uses, and the one that pays its budgets.
type FaultDomain func(ctx context.Context, c wire.Call) (circuit, payer string)

// ByTenant gives each tenant of a mail platform a circuit. The calls that name no tenant go to the
// login host and share a circuit.
func ByTenant(_ context.Context, c wire.Call) (circuit, payer string) {
	domain := loginDomain
	if id := c.Tenant(); id != "" {
		domain = tenantDomain + id
	}
	return domain, domain
}

// ByCredential gives a credential a circuit. The fingerprint identifies the credential.
func ByCredential(fingerprint string) FaultDomain {
	return func(context.Context, wire.Call) (circuit, payer string) {
		return credentialDomain + fingerprint, credentialDomain + fingerprint
	}
}

// ByProvider lets all credentials share the circuit of the provider, unless ownServer returns true
// for a call: then the credential has a server, and a circuit, of its own. Calls always count
// against the budgets of their credential.
func ByProvider(fingerprint string, ownServer func(context.Context) bool) FaultDomain {
	return func(ctx context.Context, _ wire.Call) (circuit, payer string) {
		if ownServer(ctx) {
			return credentialDomain + fingerprint, credentialDomain + fingerprint
		}
		return providerDomain, credentialDomain + fingerprint
	}
}

// Interceptor returns the interceptor that sends a call if its circuit and its budgets allow it.
// Otherwise the call ends with outcome.Down or outcome.Throttled and is not sent.
//
// While a circuit is half open, a write is not the call that tests the provider: a read is sent
// first, so that no write ends with an unknown outcome at a provider that still fails.
func (b *Breaker) Interceptor(of FaultDomain) wire.Interceptor {
	return func(ctx context.Context, call wire.Call, next func(context.Context) error) error {
		domain, payer := of(ctx, call)
		c := b.circuits.circuit(domain)
		err := c.run(ctx, call, payer, next)
		if !errors.Is(err, errReadFirst) {
			return err
		}
		probe := call.Probe()
		if failed := c.run(ctx, probe, payer, probe.Send); judge(ctx, probe, failed) != nil {
			return c.refusal(c.waitAfterProbe())
		}
		if err = c.run(ctx, call, payer, next); errors.Is(err, errReadFirst) {
			return c.refusal(probeWait)
		}
		return err
	}
}

// Circuit is the state of one fault domain.
type Circuit struct {
	// Domain is `login`, `provider`, `tenant/` and the tenant's id, or `credential/` and a
	// fingerprint. The part after the slash is customer data.
	Domain string
	State  State
	// RetryIn is the time until an open circuit lets a read through.
	RetryIn time.Duration
}

// State is the state of a circuit.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // calls are sent
	HalfOpen State = "half_open" // one read is sent to test the provider
	Open     State = "open"      // calls return at once
)

// Circuits returns the existing circuits, the most recently used first.
func (b *Breaker) Circuits() []Circuit { return b.circuits.list() }
