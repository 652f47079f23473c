// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// Fault makes matching calls fail. An empty Tenant, Method or Object matches every call.
type Fault struct {
	Method string // a method of the port, such as "CreateMailbox"
	Tenant tenant.GUID
	// Object limits the fault to calls about one object: a domain name, an address or an id.
	Object string
	Kind   outcome.Kind
	Code   fault.Code // the error code, if Kind is Refused or NotReady
	Cause  string     // "fake" if not set
	// AfterEffect makes the call take effect before it fails, as if the answer had been lost.
	AfterEffect bool
	// Skip is the number of matching calls that the fault does not affect before its first failure.
	// Times is the number of failures, 0 for no limit.
	Skip, Times int

	failures int
}

// Script holds the faults and gates of a fake, and counts its calls. It does not cover
// Platform.ConsentURL, Platform.Granted and Platform.Facts.
type Script struct {
	mu      sync.Mutex
	faults  []*Fault
	gates   []*Gate
	calls   map[string]int
	effects map[string]int
}

// Fail adds a fault. lift removes it.
func (s *Script) Fail(f Fault) (lift func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &f
	s.faults = append(s.faults, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		added.Times, added.failures = 1, 1
	}
}

// Gate makes the calls of one method wait after their effect, before they return.
type Gate struct {
	method  string
	arrived chan struct{}
	open    chan struct{}
}

// Hold makes the later calls of a method wait until Release, or until their context ends. A call
// that fails before or in its effect does not wait.
func (s *Script) Hold(method string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Gate{method: method, arrived: make(chan struct{}, 100), open: make(chan struct{})}
	s.gates = append(s.gates, g)
	return g
}

// Arrived returns a channel that receives one value for each call that waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Release lets all waiting and later calls return. It must be called only once.
func (g *Gate) Release() { close(g.open) }

// Calls returns the number of calls of a method, including failed calls.
func (s *Script) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Effects returns the number of calls of a method that changed something.
func (s *Script) Effects(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[method]
}

func (s *Script) countEffect(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.effects == nil {
		s.effects = map[string]int{}
	}
	s.effects[method]++
}

// run runs one call of a port. effect returns whether it changed anything.
func (s *Script) run(ctx context.Context, method string, id tenant.GUID, object string, effect func() (changed bool, err error)) error {
	if err := s.begin(ctx, method, id, object); err != nil {
		return err
	}
	changed, err := effect()
	if changed {
		s.countEffect(method)
	}
	if err != nil {
		return err
	}
	return s.end(ctx, method, id, object)
}

func (s *Script) begin(ctx context.Context, method string, id tenant.GUID, object string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[method]++
	if ctx.Err() != nil {
		return unknownOutcome()
	}
	return s.nextFault(method, id, object, beforeEffect)
}

func (s *Script) end(ctx context.Context, method string, id tenant.GUID, object string) error {
	s.mu.Lock()
	err := s.nextFault(method, id, object, afterEffect)
	gates := s.gates
	s.mu.Unlock()
	for _, g := range gates {
		if g.method == method && !g.wait(ctx) {
			return unknownOutcome()
		}
	}
	return err
}

func (g *Gate) wait(ctx context.Context) bool {
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

// The values of the argument isAfterEffect of nextFault.
const (
	beforeEffect = false
	afterEffect  = true
)

func (s *Script) nextFault(method string, id tenant.GUID, object string, isAfterEffect bool) error {
	for _, f := range s.faults {
		if f.AfterEffect != isAfterEffect || f.Method != "" && f.Method != method ||
			f.Tenant != "" && f.Tenant != id || f.Object != "" && f.Object != object {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 && f.failures >= f.Times {
			continue
		}
		f.failures++
		return f.err()
	}
	return nil
}

func (f *Fault) err() error {
	e := &outcome.Error{Kind: f.Kind, Code: f.Code, Cause: cmp.Or(f.Cause, "fake"), Detail: "the fake was told to fail"}
	if f.Kind == outcome.Throttled || f.Kind == outcome.Down {
		e.RetryAfter = 7 * time.Second // contract.ThrottleWait
	}
	return e
}

func unknownOutcome() error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
}

func refuse(code fault.Code, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Cause: "fake", Detail: detail}
}

func notReady(detail string) error {
	return &outcome.Error{Kind: outcome.NotReady, Cause: "fake", Detail: detail}
}
