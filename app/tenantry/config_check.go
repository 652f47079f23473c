// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/core/dns"
)

// settingError says what is wrong with the value of a setting.
type settingError struct {
	setting, problem string
}

func (e settingError) Error() string { return e.setting + ": " + e.problem }

// check refuses nonsense.
func (c Config) check() error {
	for _, problem := range c.problems() {
		return problem
	}
	return nil
}

// problems lists the settings whose values make no sense.
func (c Config) problems() []settingError {
	var all []settingError
	bad := func(setting, problem string, args ...any) {
		all = append(all, settingError{setting, fmt.Sprintf(problem, args...)})
	}
	for _, at := range [][2]string{{"listen", c.Listen}, {"admin_listen", c.AdminListen}} {
		_, port, err := net.SplitHostPort(at[1])
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
		}
		if err != nil {
			bad(at[0], "%q is not host:port", at[1])
		}
	}
	if err := c.checkPublicURL(); err != nil {
		bad("public_url", "%v", err)
	}
	if (c.TLSCertificateFile == "") != (c.TLSKeyFile == "") {
		bad("tls_key_file", "tls_certificate_file and tls_key_file belong together: set both or none")
	}
	if _, err := c.trustedProxies(); err != nil {
		bad("trusted_proxies", "%v", err)
	}
	if err := limiter.CheckURL(c.RedisURL); err != nil {
		bad("redis_url", "%v", err)
	}
	if c.Limits != "on" && c.Limits != "off" {
		bad("limits", "%q is neither on nor off", c.Limits)
	}
	if c.MaxInFlight < 1 {
		bad("max_in_flight", "%d requests at once is none", c.MaxInFlight)
	}
	for _, address := range c.DNSResolvers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			bad("dns_resolvers", "%q is not host:port", address)
		}
	}
	if c.DNSMode != "authoritative" && c.DNSMode != "recursive" {
		bad("dns_mode", "%q is neither authoritative nor recursive", c.DNSMode)
	}
	if c.DNSPort < 1 || c.DNSPort > 65535 {
		bad("dns_port", "%d is no port", c.DNSPort)
	}
	if !dns.ValidDMARC(c.DMARCRecord) {
		bad("dmarc_record", "%q is no DMARC record that receivers take, as v=DMARC1; p=none", c.DMARCRecord)
	}
	if c.CircuitOpen <= 0 {
		bad("circuit_open", "%s is no time to wait", c.CircuitOpen)
	}
	if c.DrainTime <= 0 {
		bad("drain_time", "%s is no time to stop in", c.DrainTime)
	}
	if c.DrainDelay < 0 || c.DrainDelay >= c.DrainTime {
		bad("drain_delay", "%s is not a part of drain_time, which is %s", c.DrainDelay, c.DrainTime)
	}
	if _, err := logLevel(c.LogLevel); err != nil {
		bad("log_level", "%s", strings.TrimPrefix(err.Error(), "log_level: "))
	}
	return all
}

// trustedProxies reads the ranges; an address is the range of itself.
func (c Config) trustedProxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range c.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if a, fail := netip.ParseAddr(text); fail == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is neither an address nor a range like 10.0.0.0/8", text)
		case p.Bits() == 0:
			return nil, fmt.Errorf("%q is everybody", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

func (c Config) checkPublicURL() error {
	if c.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil: // not quoted: it may hold a password
		return errors.New("it has a query, a fragment or a user")
	case u.Host == "" || u.Scheme != "https" && !loopback(u):
		return fmt.Errorf("%q is neither https://… nor http:// on loopback", c.PublicURL)
	}
	return nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
