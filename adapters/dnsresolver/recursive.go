// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	wire "github.com/miekg/dns"
)

// errNoResolver: no configured resolver gave a usable answer.
var errNoResolver = errors.New("no resolver answered")

// resolvers reads the configured addresses, or those of the machine when none
// are configured.
func resolvers(list []string, log *slog.Logger) []netip.AddrPort {
	if len(list) == 0 {
		machine, err := wire.ClientConfigFromFile("/etc/resolv.conf")
		if err != nil {
			log.Error("no DNS resolvers: none configured and the machine's cannot be read", "error", err)
			return nil
		}
		list = machine.Servers
	}
	var out []netip.AddrPort
	for _, s := range list {
		if ap, err := netip.ParseAddrPort(s); err == nil {
			out = append(out, ap)
		} else if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53))
		} else {
			log.Error("DNS resolver left out: it is neither address nor address:port", "resolver", s)
		}
	}
	return out
}

// recurse asks the resolvers in their order. One that says it cannot help is
// not asked again; silent ones get a second round.
func (r *Reader) recurse(ctx context.Context, q question) (*wire.Msg, error) {
	left := r.resolvers
	for range 2 {
		var silent []netip.AddrPort
		for _, resolver := range left {
			m, err := r.wire.ask(ctx, resolver, q, true, false, 1)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				silent = append(silent, resolver)
			case m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError:
				return m, nil
			}
		}
		left = silent
	}
	return nil, errNoResolver
}

// chase gives the values at the target of an alias that leads out of the
// asked zone.
func (r *Reader) chase(ctx context.Context, q question) (view, error) {
	m, err := r.recurse(ctx, q)
	if err != nil {
		return view{}, err
	}
	return look(m, q)
}
