// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	wire "github.com/miekg/dns"
)

// Resolver is a recursive resolver of the Reader, and why it is of no use, if
// so.
type Resolver struct {
	Addr netip.AddrPort
	Err  error
}

// Resolvers asks every resolver, by itself, for the zone of name.
func (r *Reader) Resolvers(ctx context.Context, name string) []Resolver {
	all := make([]Resolver, len(r.resolvers))
	var wait sync.WaitGroup
	for i, addr := range r.resolvers {
		wait.Go(func() { all[i] = Resolver{addr, r.answers(ctx, addr, question{normalise(name), wire.TypeSOA})} })
	}
	wait.Wait()
	return all
}

func (r *Reader) answers(ctx context.Context, addr netip.AddrPort, q question) error {
	m, err := r.wire.ask(ctx, addr, q, manner{tries: 2, recurse: true})
	switch {
	case err != nil:
		return errors.New("no answer")
	case m.Rcode != wire.RcodeSuccess && m.Rcode != wire.RcodeNameError:
		return errors.New("it says " + wire.RcodeToString[m.Rcode])
	default:
		return nil
	}
}
