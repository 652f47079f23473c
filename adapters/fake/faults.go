// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// Fault makes calls fail. The zero Tenant and the empty Method mean all.
type Fault struct {
	Method string // of the port, such as "CreateMailbox"
	Tenant tenant.GUID
	// About narrows the fault to one domain name, address or object id.
	About string
	Kind  outcome.Kind
	Code  fault.Code // for Refused and NotReady
	// AfterEffect lets the call do its work and loses the answer.
	AfterEffect bool
	// Skip lets calls pass before the first that fails; Times is how many
	// fail, 0 for all.
	Skip, Times int

	spent int
}

// Fail arms a fault and returns how to lift it.
func (p *Platform) Fail(f Fault) (lift func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	armed := &f
	p.faults = append(p.faults, armed)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		armed.Times, armed.spent = 1, 1
	}
}

// Gate holds the calls of a method after their effect, before the answer.
type Gate struct {
	method  string
	arrived chan struct{}
	open    chan struct{}
}

// Hold holds every call of a method until Release.
func (p *Platform) Hold(method string) *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &Gate{method: method, arrived: make(chan struct{}, 100), open: make(chan struct{})}
	p.gates = append(p.gates, g)
	return g
}

// Arrived receives once for each call that waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Release lets all calls through, those to come included. Call it once.
func (g *Gate) Release() { close(g.open) }

// Calls counts the calls of a method.
func (p *Platform) Calls(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

// Effects counts the calls of a method that changed something.
func (p *Platform) Effects(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects[method]
}

// call runs one call of the port: effect does its work under the lock and
// says whether it changed anything.
func (p *Platform) call(ctx context.Context, method string, id tenant.GUID, about string, effect func() (bool, error)) error {
	if err := p.begin(ctx, method, id, about); err != nil {
		return err
	}
	p.mu.Lock()
	changed, err := effect()
	if changed {
		p.effects[method]++
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.end(ctx, method, id, about)
}

func (p *Platform) begin(ctx context.Context, method string, id tenant.GUID, about string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[method]++
	if ctx.Err() != nil {
		return unknown()
	}
	return p.faulty(method, id, about, false)
}

func (p *Platform) end(ctx context.Context, method string, id tenant.GUID, about string) error {
	p.mu.Lock()
	err := p.faulty(method, id, about, true)
	gates := p.gates
	p.mu.Unlock()
	for _, g := range gates {
		if g.method == method && !g.pass(ctx) {
			return unknown()
		}
	}
	return err
}

func (g *Gate) pass(ctx context.Context) bool {
	select {
	case <-g.open:
		return true
	default:
	}
	g.arrived <- struct{}{}
	select {
	case <-g.open:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *Platform) faulty(method string, id tenant.GUID, about string, after bool) error {
	for _, f := range p.faults {
		if f.AfterEffect != after || f.Method != "" && f.Method != method ||
			f.Tenant != "" && f.Tenant != id || f.About != "" && f.About != about {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 && f.spent >= f.Times {
			continue
		}
		f.spent++
		return f.err()
	}
	return nil
}

func (f *Fault) err() error {
	e := &outcome.Error{Kind: f.Kind, Code: f.Code, Cause: "fake", Detail: "the fake was told to fail"}
	if f.Kind == outcome.Throttled || f.Kind == outcome.Down {
		e.RetryAfter = 7 * time.Second
	}
	return e
}

func unknown() error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
}

func refuse(code fault.Code, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Cause: "fake", Detail: detail}
}

func notReady(detail string) error {
	return &outcome.Error{Kind: outcome.NotReady, Cause: "fake", Detail: detail}
}
