// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	wire "github.com/miekg/dns"
)

// errNoResolver: no configured resolver said anything; errFailing: those that
// did cannot find an answer.
var (
	errNoResolver = errors.New("no resolver answered")
	errFailing    = errors.New("the resolvers find no answer")
)

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
	return r.consult(ctx, q, asResolver)
}

func (r *Reader) consult(ctx context.Context, q question, how manner) (*wire.Msg, error) {
	left, refused := r.resolvers, errNoResolver
	for range 2 {
		var silent []netip.AddrPort
		for _, resolver := range left {
			m, err := r.wire.ask(ctx, resolver, q, how)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				silent = append(silent, resolver)
			case m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError:
				return m, nil
			default:
				refused = errFailing
			}
		}
		left = silent
	}
	return nil, refused
}

// checked is recurse, which also tells whether there is an answer only because
// DNSSEC was left aside. Resolvers that check, as those of mail platforms do,
// then have none.
func (r *Reader) checked(ctx context.Context, q question) (m *wire.Msg, bogus bool, err error) {
	m, err = r.recurse(ctx, q)
	if !errors.Is(err, errFailing) {
		return m, false, err
	}
	unchecked, failed := r.consult(ctx, q, asUnchecked)
	if failed != nil {
		return nil, false, err
	}
	// It may have been a slow server: the resolver knows more now.
	if m, err = r.recurse(ctx, q); err == nil {
		return m, false, nil
	}
	return unchecked, true, nil
}
