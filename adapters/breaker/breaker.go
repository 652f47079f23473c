// SPDX-License-Identifier: Apache-2.0

// Package breaker keeps tenantry from calling a provider that is out of
// service: after several failures in a row calls are answered at once, until
// a read shows that the provider is back.
package breaker

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Options say when a circuit opens and for how long. Zero values are the
// defaults.
type Options struct {
	Provider string
	Log      *slog.Logger
	// Failures in a row open a circuit; 5.
	Failures int
	// Window is how long a failure is remembered; 2 min. When at least
	// 2 × Failures, and half of all calls in it, failed, the circuit opens too.
	Window time.Duration
	// Open is how long an open circuit stays open; 30 s.
	Open time.Duration
	// Budget counts a call against what the provider allows, before it leaves.
	// A call that does not fit in is told when it would. nil allows all. Calls
	// of DNS providers and sending platforms, and the mail platform's OpSent,
	// have the name of their operation.
	Budget func(ctx context.Context, domain, operation string) (retryIn time.Duration, ok bool)
	// Domains bounds how many fault domains have a circuit of their own; the
	// one used least recently is forgotten first; 4096.
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

// Platform is a mail platform with a circuit for each tenant and one for the
// platform's login host, so that one tenant's trouble is its own.
type Platform struct {
	next     ports.MailPlatform
	circuits *registry
}

var _ ports.MailPlatform = (*Platform)(nil)

// Mail puts circuits around a mail platform.
func Mail(next ports.MailPlatform, o Options) *Platform {
	return &Platform{next: next, circuits: newRegistry(o.orDefaults())}
}

// For gives the client of one tenant.
func (p *Platform) For(t tenant.GUID) ports.MailTenant {
	return guarded{next: p.next.For(t), circuits: p.circuits, domain: tenantDomain + string(t)}
}

// Circuit is the state of one fault domain.
type Circuit struct {
	// Domain is `login`, `provider`, `tenant/` and the tenant's id, or
	// `credential/` and a fingerprint. What follows the slash is customer data.
	Domain string
	State  State
	// RetryIn is when an open circuit lets a read through.
	RetryIn time.Duration
}

// State is the state of a circuit.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // calls go through
	HalfOpen State = "half_open" // one read goes through to see
	Open     State = "open"      // calls are answered at once
)

// Circuits lists the fault domains that have a circuit, the most recently used
// first.
func (p *Platform) Circuits() []Circuit { return p.circuits.list() }
