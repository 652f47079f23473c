// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// probeZone is the zone that the DNS check reads. The public DNS and the sandbox both have this
// zone. It is not a zone of a plugin's description, because the check must also work when plugins
// fail.
const probeZone = "iana.org"

// checkDNS queries each resolver, and reads probeZone as the service reads customers' domains.
func (e *examination) checkDNS(ctx context.Context) finding {
	c := e.config
	if problem := cmp.Or(e.settingProblems["dns_resolvers"], e.settingProblems["dns_mode"], e.settingProblems["dns_port"]); problem != "" {
		return failedFinding("correct dns_resolvers (addresses with ports), dns_mode and dns_port", "%s", problem)
	}
	reader := dnsresolver.New(dnsresolver.Options{
		Resolvers: c.DNSResolvers, Recursive: c.DNSMode == "recursive", Port: c.DNSPort, AllowPrivate: c.DNSAllowPrivate, Log: slog.New(slog.DiscardHandler),
	})
	var resolvers []dnsresolver.Resolver
	var resolverChecks panics.Group
	resolverChecks.Go(func() { resolvers = reader.CheckResolvers(ctx, probeZone) })
	zoneRead, err := reader.Read(ctx, "", probeZone)
	resolverChecks.Wait()
	var silentResolvers []string
	for _, r := range resolvers {
		if r.Err != nil {
			silentResolvers = append(silentResolvers, fmt.Sprintf("%s (%s)", r.Addr, r.Err))
		}
	}
	const fix = "correct dns_resolvers, or let this machine reach the resolvers by UDP and TCP"
	switch {
	case len(silentResolvers) == len(resolvers):
		return failedFinding(fix, "no resolver answers: %s", cmp.Or(strings.Join(silentResolvers, ", "), "none is configured"))
	case zoneRead.Zone == "" && zoneRead.Reason != "":
		return failedFinding("set dns_resolvers to resolvers of the public DNS", "the resolvers do not find the zone %s: %s", probeZone, zoneRead.Reason)
	case c.DNSMode == "recursive":
		return warningFinding("let this machine reach name servers by UDP and TCP, and set dns_mode to authoritative", "dns_mode is recursive: no read counts as reliable, and no DNS is written")
	case err != nil || answeringServers(zoneRead) == 0:
		reason := strings.Join(append([]string{cmp.Or(zoneRead.Reason, "read_deadline")}, zoneRead.Warnings...), ", ")
		return failedFinding(fmt.Sprintf("let this machine reach UDP and TCP port %d of any address; if name servers are in a private network on purpose, set dns_allow_private", c.DNSPort),
			"no authoritative server of %s answers on port %d: %s", probeZone, c.DNSPort, reason)
	case len(silentResolvers) > 0:
		return warningFinding(fix, "%d of %d resolvers do not answer: %s", len(silentResolvers), len(resolvers), strings.Join(silentResolvers, ", "))
	default:
		return okFinding("resolvers that answer: %d of %d; authoritative servers answer on port %d", len(resolvers), len(resolvers), c.DNSPort)
	}
}

func answeringServers(zoneRead dns.ZoneRead) int {
	count := 0
	for _, server := range zoneRead.Servers {
		if server.State == dns.ServerOK {
			count++
		}
	}
	return count
}

const fixPublicURL = "set public_url (TENANTRY_PUBLIC_URL) to the https:// address at which browsers reach the service"

// checkPublicURL checks that public_url is set and that its host resolves to an address other than
// loopback. Unless the check fails, the summary lists the redirect URIs that the operator must
// register.
func (e *examination) checkPublicURL(ctx context.Context) finding {
	if problem := e.settingProblems["public_url"]; problem != "" {
		return failedFinding(fixPublicURL, "%s", problem)
	}
	address := e.config.PublicURL
	if address == "" {
		address = "http://" + e.config.Listen
		if e.config.TLSCertificateFile != "" {
			address = "https://" + e.config.Listen
		}
		return warningFinding(fixPublicURL, "not set: links lead to the address of listen, %s; %s", address, e.redirectURIHint(address))
	}
	u, err := url.Parse(address)
	if err != nil {
		return failedFinding(fixPublicURL, "public_url is not a valid URL")
	}
	addresses, err := e.resolveHost(ctx, u.Hostname())
	switch {
	case err != nil || len(addresses) == 0:
		return failedFinding("publish an A or AAAA record of "+u.Hostname()+", or correct public_url", "%s: the host's name does not resolve", address)
	case !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !a.IsLoopback() }):
		return warningFinding(fixPublicURL, "%s is this machine's own address: customers' administrators cannot reach it; %s", address, e.redirectURIHint(address))
	}
	return okFinding("%s resolves; %s", address, e.redirectURIHint(address))
}

// redirectURIHint returns a text with the redirect URIs to register for a public URL.
func (e *examination) redirectURIHint(address string) string {
	return "redirect URIs to register: " + strings.Join(tenants.RedirectURIs(address, e.config.MailPlatform), " and ")
}

// resolveHost returns the IP addresses of a host. It queries the configured resolvers in their
// order until one of them answers, or the resolvers of this machine if dns_resolvers is empty or
// invalid.
func (e *examination) resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if len(e.config.DNSResolvers) == 0 || e.settingProblems["dns_resolvers"] != "" {
		return lookUp(ctx, &net.Resolver{}, host, probeTimeout)
	}
	var addresses []netip.Addr
	var err error
	for _, server := range e.config.DNSResolvers {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}}
		addresses, err = lookUp(ctx, resolver, host, probeTimeout/time.Duration(len(e.config.DNSResolvers)))
		var answer *net.DNSError
		if err == nil || errors.As(err, &answer) && answer.IsNotFound {
			break
		}
	}
	return addresses, err
}

func lookUp(ctx context.Context, resolver *net.Resolver, host string, timeout time.Duration) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return resolver.LookupNetIP(ctx, "ip", host)
}
