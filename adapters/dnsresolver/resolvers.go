// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/panics"
)

// errNoResolver means that no resolver responded. errOnlyErrorCodes means that resolvers responded,
// but only with error codes.
var (
	errNoResolver     = errors.New("no resolver answered")
	errOnlyErrorCodes = errors.New("the resolvers answered only with error codes")
)

// resolverAddrs parses the configured addresses. Without configured addresses it uses the resolvers
// of /etc/resolv.conf.
func resolverAddrs(list []string, log *slog.Logger) []netip.AddrPort {
	if len(list) == 0 {
		config, err := wire.ClientConfigFromFile("/etc/resolv.conf")
		if err != nil {
			log.Error("no DNS resolvers: none are configured, and /etc/resolv.conf cannot be read", "error", err)
			return nil
		}
		list = config.Servers
	}
	var addrs []netip.AddrPort
	for _, s := range list {
		if ap, err := netip.ParseAddrPort(s); err == nil {
			addrs = append(addrs, ap)
		} else if a, err := netip.ParseAddr(s); err == nil {
			addrs = append(addrs, netip.AddrPortFrom(a, 53))
		} else {
			log.Error("DNS resolver ignored: the value is neither an address nor address:port", "resolver", s)
		}
	}
	return addrs
}

// queryResolvers asks the resolvers in order and returns the first answer. If there is no answer,
// it repeats the question once to each resolver that did not respond. It does not repeat the
// question to a resolver that responded with an error code.
func (r *Reader) queryResolvers(ctx context.Context, q question) (*wire.Msg, error) {
	return r.queryResolversAs(ctx, q, modeResolver)
}

func (r *Reader) queryResolversAs(ctx context.Context, q question, mode queryMode) (*wire.Msg, error) {
	remaining, failure := r.resolvers, errNoResolver
	for range 2 {
		var silent []netip.AddrPort
		for _, resolver := range remaining {
			m, err := r.client.exchange(ctx, resolver, q, mode)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				silent = append(silent, resolver)
			case m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError:
				return m, nil
			default:
				failure = errOnlyErrorCodes
			}
		}
		remaining = silent
	}
	return nil, failure
}

// queryChecked is like queryResolvers. bogus is true if the resolvers answer only without DNSSEC
// validation. Resolvers that validate, such as the resolvers of mail platforms, then get no answer.
func (r *Reader) queryChecked(ctx context.Context, q question) (m *wire.Msg, bogus bool, err error) {
	m, err = r.queryResolvers(ctx, q)
	if !errors.Is(err, errOnlyErrorCodes) {
		return m, false, err
	}
	unchecked, uncheckedErr := r.queryResolversAs(ctx, q, modeUnchecked)
	if uncheckedErr != nil {
		return nil, false, err
	}
	// The first failure may have had a different cause, such as a slow server, so the question is
	// sent again.
	if m, err = r.queryResolvers(ctx, q); err == nil {
		return m, false, nil
	}
	return unchecked, true, nil
}

// Resolver is a recursive resolver of the Reader. Err is nil if the resolver answered NOERROR or
// NXDOMAIN. Otherwise Err says why the resolver cannot be used.
type Resolver struct {
	Addr netip.AddrPort
	Err  error
}

// CheckResolvers asks each resolver separately for the SOA of name and returns the results in the
// configured order.
func (r *Reader) CheckResolvers(ctx context.Context, name string) []Resolver {
	list := make([]Resolver, len(r.resolvers))
	var group panics.Group
	for i, addr := range r.resolvers {
		group.Go(func() { list[i] = Resolver{addr, r.checkResolver(ctx, addr, question{normalise(name), wire.TypeSOA})} })
	}
	group.Wait()
	return list
}

func (r *Reader) checkResolver(ctx context.Context, addr netip.AddrPort, q question) error {
	m, err := r.client.exchange(ctx, addr, q, queryMode{tries: 2, wantsRecursion: true})
	switch {
	case err != nil:
		return errors.New("no answer")
	case m.Rcode != wire.RcodeSuccess && m.Rcode != wire.RcodeNameError:
		return errors.New("it answered with " + wire.RcodeToString[m.Rcode])
	default:
		return nil
	}
}

// resolversAsServers is for Options.Recursive: the resolvers are then asked instead of the name
// servers of a zone. It returns them as one server with at most maxAddressesPerServer addresses.
// Its name is "resolver", so that API clients do not see the addresses.
func (r *Reader) resolversAsServers() []server {
	return []server{{name: "resolver", addrs: r.resolvers[:min(len(r.resolvers), maxAddressesPerServer)]}}
}

func (r *Reader) serverMode() queryMode {
	if r.isRecursive {
		return modeResolverAsServer
	}
	return modeServer
}
