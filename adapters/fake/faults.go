// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"sync"
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

// Script is what a fake was told to do wrong, and what it was asked so far.
type Script struct {
	mu      sync.Mutex
	faults  []*Fault
	gates   []*Gate
	calls   map[string]int
	effects map[string]int
}

// Fail arms a fault and returns how to lift it.
func (s *Script) Fail(f Fault) (lift func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed := &f
	s.faults = append(s.faults, armed)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
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
func (s *Script) Hold(method string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Gate{method: method, arrived: make(chan struct{}, 100), open: make(chan struct{})}
	s.gates = append(s.gates, g)
	return g
}

// Arrived receives once for each call that waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Release lets all calls through, those to come included. Call it once.
func (g *Gate) Release() { close(g.open) }

// Calls counts the calls of a method.
func (s *Script) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Effects counts the calls of a method that changed something.
func (s *Script) Effects(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[method]
}

func (s *Script) effected(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.effects == nil {
		s.effects = map[string]int{}
	}
	s.effects[method]++
}

// call runs one call of the port: effect does its work under the lock and
// says whether it changed anything.
func (p *Platform) call(ctx context.Context, method string, id tenant.GUID, about string, effect func() (bool, error)) error {
	if err := p.begin(ctx, method, id, about); err != nil {
		return err
	}
	p.mu.Lock()
	changed, err := effect()
	p.mu.Unlock()
	if changed {
		p.effected(method)
	}
	if err != nil {
		return err
	}
	return p.end(ctx, method, id, about)
}

func (s *Script) begin(ctx context.Context, method string, id tenant.GUID, about string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[method]++
	if ctx.Err() != nil {
		return unknown()
	}
	return s.faulty(method, id, about, false)
}

func (s *Script) end(ctx context.Context, method string, id tenant.GUID, about string) error {
	s.mu.Lock()
	err := s.faulty(method, id, about, true)
	gates := s.gates
	s.mu.Unlock()
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

func (s *Script) faulty(method string, id tenant.GUID, about string, after bool) error {
	for _, f := range s.faults {
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
