// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"container/list"
	"sync"
)

// The names of fault domains. A name that ends with a slash is a prefix.
const (
	loginDomain      = "login"
	providerDomain   = "provider"
	tenantDomain     = "tenant/"
	credentialDomain = "credential/"
)

// registry holds the circuits of one provider, up to Options.MaxCircuits.
type registry struct {
	options Options

	mu     sync.Mutex
	recent *list.List               // of *circuit, the most recently used first
	byName map[string]*list.Element // keyed by fault domain
}

func newRegistry(o Options) *registry {
	return &registry{options: o, recent: list.New(), byName: map[string]*list.Element{}}
}

// circuit returns the circuit of a fault domain. If there is none, it creates one, and then removes
// the least recently used circuit if there are more than Options.MaxCircuits.
func (r *registry) circuit(domain string) *circuit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byName[domain]; ok {
		r.recent.MoveToFront(e)
		return e.Value.(*circuit)
	}
	c := newCircuit(domain, r.options)
	r.byName[domain] = r.recent.PushFront(c)
	if r.recent.Len() > r.options.MaxCircuits {
		oldest := r.recent.Remove(r.recent.Back()).(*circuit)
		delete(r.byName, oldest.domain)
	}
	return c
}

func (r *registry) list() []Circuit {
	r.mu.Lock()
	circuits := make([]*circuit, 0, r.recent.Len())
	for e := r.recent.Front(); e != nil; e = e.Next() {
		circuits = append(circuits, e.Value.(*circuit))
	}
	r.mu.Unlock()
	list := make([]Circuit, len(circuits))
	for i, c := range circuits {
		list[i] = c.snapshot()
	}
	return list
}
