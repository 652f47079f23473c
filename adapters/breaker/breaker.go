// SPDX-License-Identifier: Apache-2.0

// Package breaker puts circuit breakers (package gobreaker) between tenantry and its providers.
// After repeated failures a circuit opens. Calls then fail at once and are not sent to the
// provider. After a pause, one read tests whether the provider works again.
//
// A Breaker holds the circuits of one provider, one for each fault domain: a tenant, a credential,
// the login host, or the provider as a whole. The interceptor that Breaker.Interceptor returns runs
// around each call (see plugins/wire). It also counts the call against the provider's budgets, and
// records in ports.Effects whether the provider was called. The .proto files in plugins/proto mark
// which methods are reads.
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

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// Options configure the circuits of one provider. Fields with a default may be zero.
type Options struct {
	Provider string
	Log      *slog.Logger
	// Failures is the number of consecutive failures that opens a circuit. The default is 5.
	Failures int
	// Window is the time in which failures are counted. The default is 2 minutes. A circuit also
	// opens if at least 2 × Failures calls failed in the window, and they are at least half of the
	// calls in the window.
	Window time.Duration
	// OpenTime is how long a circuit stays open. The default is 30 seconds.
	OpenTime time.Duration
	// Budget counts a call against the provider's budgets before the call is sent. domain is the
	// fault domain whose budgets are used. operation is wire.Call.Operation. If the call exceeds a
	// budget, Budget returns false and the time after which a retry can succeed. Otherwise Budget
	// returns the function giveBack, which removes the call from the budgets again. If Budget is
	// nil, all calls are allowed.
	Budget BudgetFunc
	// MaxCircuits is the maximum number of circuits. If there are more, the least recently used
	// circuit is removed. The default is 4096.
	MaxCircuits int
}

// BudgetFunc is the type of Options.Budget.
type BudgetFunc func(ctx context.Context, domain, operation string) (giveBack func(), retryIn time.Duration, ok bool)

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
	if o.OpenTime <= 0 {
		o.OpenTime = 30 * time.Second
	}
	if o.Budget == nil {
		o.Budget = func(context.Context, string, string) (func(), time.Duration, bool) { return func() {}, 0, true }
	}
	if o.MaxCircuits <= 0 {
		o.MaxCircuits = 4096
	}
	return o
}

// Breaker holds the circuits of one provider.
type Breaker struct{ circuits *registry }

// New returns a Breaker without circuits. The first call of a fault domain creates its circuit.
func New(o Options) *Breaker { return &Breaker{newRegistry(o.orDefaults())} }

// FaultDomain returns the fault domain whose circuit a call uses, and the fault domain whose
// budgets the call uses.
type FaultDomain func(ctx context.Context, c wire.Call) (circuitDomain, budgetDomain string)

// ByTenant gives each tenant of a mail platform its own circuit. Calls without a tenant share one
// circuit, because those that reach the platform go to its login host.
//
// The call Administrator checks that a person administers a tenant. It uses the circuit of this
// tenant, because it signs in at the login host and then reads the tenant. If the login host
// refuses the sign-in, Administrator does not read the tenant, but the refusal counts as an answer.
// The refusal can therefore close the half-open circuit of a tenant that does not work. The next
// failures of calls to the tenant open the circuit again.
func ByTenant(_ context.Context, c wire.Call) (circuitDomain, budgetDomain string) {
	domain := loginDomain
	if id := c.Tenant(); id != "" {
		domain = tenantDomain + id
	}
	return domain, domain
}

// ByCredential gives the credential with this fingerprint its own circuit.
func ByCredential(fingerprint string) FaultDomain {
	return func(context.Context, wire.Call) (circuitDomain, budgetDomain string) {
		return credentialDomain + fingerprint, credentialDomain + fingerprint
	}
}

// ByProvider lets all credentials of a provider share one circuit, unless ownServer returns true
// for a call. The credential then has its own server and therefore its own circuit. Each call
// counts against the budgets of its credential.
func ByProvider(fingerprint string, ownServer func(context.Context) bool) FaultDomain {
	return func(ctx context.Context, _ wire.Call) (circuitDomain, budgetDomain string) {
		if ownServer(ctx) {
			return credentialDomain + fingerprint, credentialDomain + fingerprint
		}
		return providerDomain, credentialDomain + fingerprint
	}
}

// Interceptor returns an interceptor that sends a call only if its circuit and its budgets allow
// it. A call that the circuit refuses fails with outcome.Down. A call that exceeds a budget fails
// with outcome.Throttled. A call of a request that has lost its lease fails with
// service_unavailable (see ports.Stopped).
//
// A write never tests a half-open circuit, because its outcome could stay unknown if the provider
// still fails. Instead, the interceptor first sends the read that wire.Call.Probe returns. If a
// budget, a wait or a missing process prevents the read, the write fails with the error of the
// read. After any other read without an answer, the write fails with outcome.Down.
func (b *Breaker) Interceptor(domainsOf FaultDomain) wire.Interceptor {
	return func(ctx context.Context, call wire.Call, next func(context.Context) error) error {
		circuitDomain, budgetDomain := domainsOf(ctx, call)
		c := b.circuits.circuit(circuitDomain)
		err := c.run(ctx, call, budgetDomain, next)
		if !errors.Is(err, errReadFirst) {
			return err
		}
		probe := call.Probe()
		probeErr := c.run(ctx, probe, budgetDomain, probe.Send)
		switch {
		case (outcome.KindOf(probeErr) == outcome.Throttled || outcome.IsUnsent(probeErr)) && c.isHalfOpen():
			return probeErr // the read was not sent
		case classify(ctx, probe, probeErr) != nil:
			return c.refusal(c.waitAfterProbe())
		}
		if err = c.run(ctx, call, budgetDomain, next); errors.Is(err, errReadFirst) {
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
	// RetryIn is the time after which an open circuit sends a read. It is 0 for other circuits.
	RetryIn time.Duration
}

// State is the state of a circuit.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // calls are sent
	HalfOpen State = "half_open" // one read is sent to test the provider
	Open     State = "open"      // calls fail at once and are not sent
)

// Circuits returns the existing circuits, the most recently used first.
func (b *Breaker) Circuits() []Circuit { return b.circuits.list() }
