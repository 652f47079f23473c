// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/app/tenants"
)

const fixPublicURL = "set public_url (TENANTRY_PUBLIC_URL) to the https:// address at which browsers reach the service"

func (e *examination) publicURL(ctx context.Context) finding {
	if wrong := e.wrong["public_url"]; wrong != "" {
		return broken(fixPublicURL, "%s", wrong)
	}
	address := e.config.PublicURL
	if address == "" {
		address = "http://" + e.config.Listen
		if e.config.TLSCertificateFile != "" {
			address = "https://" + e.config.Listen
		}
		return doubtful(fixPublicURL, "not set: links lead to %s, which only this machine reaches; %s", address, register(address))
	}
	u, err := url.Parse(address)
	if err != nil {
		return broken(fixPublicURL, "it cannot be read")
	}
	addresses, err := e.lookUp(ctx, u.Hostname())
	switch {
	case err != nil || len(addresses) == 0:
		return broken("publish an A or AAAA record of "+u.Hostname()+", or correct public_url", "%s: the host's name does not resolve", address)
	case !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !a.IsLoopback() }):
		return doubtful(fixPublicURL, "%s is this machine's own address: customers' administrators cannot reach it; %s", address, register(address))
	}
	return fine("%s resolves; %s", address, register(address))
}

func register(address string) string {
	return "redirect URIs to register: " + strings.Join(tenants.RedirectURIs(address), " and ")
}

// lookUp resolves a host as the world does, by the configured resolvers.
func (e *examination) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	resolver := &net.Resolver{}
	if len(e.config.DNSResolvers) > 0 && e.wrong["dns_resolvers"] == "" {
		resolver.PreferGo = true
		resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, e.config.DNSResolvers[0])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	return resolver.LookupNetIP(ctx, "ip", host)
}
