// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/core/dns"
)

// Problem is the error of a setting that is unknown or whose value is invalid.
type Problem struct {
	Setting string // the name of the setting, or the name of its variable
	Text    string
}

func (e Problem) Error() string { return e.Setting + ": " + e.Text }

// Fix returns how the operator can correct the setting. Package cli prints it.
func (e Problem) Fix() string {
	return "`tenantry config` shows every setting, its value and its source"
}

// Check returns the first error of Problems, or nil.
func (c Config) Check() error {
	for _, problem := range c.Problems() {
		return problem
	}
	return nil
}

// maxKeepDays is the maximum of the settings keep_…_days. A time.Duration cannot hold more than
// 106751 days.
const maxKeepDays = 36500

// keyPrefixPattern matches prefixes that clients can send unchanged in an Authorization header.
var keyPrefixPattern = regexp.MustCompile(`^[A-Za-z0-9._~+/=:@-]{1,64}$`)

// Problems returns an error for each setting whose value is invalid.
func (c Config) Problems() []Problem {
	var problems []Problem
	addProblem := func(setting, problem string, args ...any) {
		problems = append(problems, Problem{setting, fmt.Sprintf(problem, args...)})
	}
	for _, listener := range []struct{ setting, address string }{{"listen", c.Listen}, {"admin_listen", c.AdminListen}} {
		_, port, err := net.SplitHostPort(listener.address)
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
		}
		if err != nil {
			addProblem(listener.setting, "%q is not host:port", listener.address)
		}
	}
	if err := c.checkPublicURL(); err != nil {
		addProblem("public_url", "%v", err)
	}
	if (c.TLSCertificateFile == "") != (c.TLSKeyFile == "") {
		addProblem("tls_key_file", "tls_certificate_file and tls_key_file belong together: set both or none")
	}
	if _, err := c.Proxies(); err != nil {
		addProblem("trusted_proxies", "%v", err)
	}
	if err := database.CheckURL(c.DatabaseURL); err != nil {
		addProblem("database_url", "%v", err) // err does not quote the URL, which may hold a password
	}
	if err := limiter.CheckURL(c.RedisURL); err != nil {
		addProblem("redis_url", "%v", err)
	}
	for header := range strings.SplitSeq(c.PluginOTLPHeaders, ",") {
		if name, _, found := strings.Cut(header, "="); c.PluginOTLPHeaders != "" && (!found || strings.TrimSpace(name) == "") {
			addProblem("plugin_otlp_headers", "must be pairs name=value, separated by commas") // the value is not quoted, because it may hold a credential
			break
		}
	}
	if c.Limits != "on" && c.Limits != "off" {
		addProblem("limits", "%q is neither on nor off", c.Limits)
	}
	if c.MaxInFlight < 1 {
		addProblem("max_in_flight", "must be at least 1, got %d", c.MaxInFlight)
	}
	if c.MaxConnections < 2 {
		addProblem("max_connections", "must be at least 2, got %d", c.MaxConnections)
	}
	for _, limit := range []struct {
		setting string
		value   int
	}{{"plugin_memory_mib", c.PluginMemoryMiB}, {"plugin_processes", c.PluginProcesses}, {"plugin_open_files", c.PluginOpenFiles}} {
		if limit.value < 0 {
			addProblem(limit.setting, "must not be negative, got %d", limit.value)
		}
	}
	for _, days := range []struct {
		setting string
		value   int
	}{{"keep_events_days", c.KeepEventsDays}, {"keep_log_days", c.KeepLogDays}, {"keep_audit_days", c.KeepAuditDays}} {
		if days.value < 0 || days.value > maxKeepDays {
			addProblem(days.setting, "must be between 0 and %d, got %d", maxKeepDays, days.value)
		}
	}
	for _, address := range c.DNSResolvers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			addProblem("dns_resolvers", "%q is not host:port", address)
		}
	}
	if c.DNSMode != "authoritative" && c.DNSMode != "recursive" {
		addProblem("dns_mode", "%q is neither authoritative nor recursive", c.DNSMode)
	}
	if c.DNSPort < 1 || c.DNSPort > 65535 {
		addProblem("dns_port", "must be between 1 and 65535, got %d", c.DNSPort)
	}
	if !dns.ValidDMARC(c.DMARCRecord) {
		addProblem("dmarc_record", "%q is not a valid DMARC record; a valid one is v=DMARC1; p=none", c.DMARCRecord)
	}
	if c.RedisTimeout <= 0 {
		addProblem("redis_timeout", "must be more than 0, got %s", c.RedisTimeout)
	}
	if c.CircuitOpen <= 0 {
		addProblem("circuit_open", "must be more than 0, got %s", c.CircuitOpen)
	}
	if c.DrainTime <= 0 {
		addProblem("drain_time", "must be more than 0, got %s", c.DrainTime)
	}
	if c.DrainDelay < 0 || c.DrainDelay >= c.DrainTime {
		addProblem("drain_delay", "must be at least 0 and less than drain_time (%[2]s), got %[1]s", c.DrainDelay, c.DrainTime)
	}
	if !keyPrefixPattern.MatchString(c.KeyPrefix) {
		addProblem("key_prefix", "%q is not 1 to 64 letters, digits and characters of ._~+/=:@-", c.KeyPrefix)
	}
	if _, err := logLevel(c.LogLevel); err != nil {
		addProblem("log_level", "%v", err)
	}
	return problems
}

// Proxies returns trusted_proxies as address ranges. A single address becomes a range with one
// address.
func (c Config) Proxies() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if address, addressErr := netip.ParseAddr(text); addressErr == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is neither an address nor a range like 10.0.0.0/8", text)
		case prefix.Bits() == 0:
			return nil, fmt.Errorf("%q contains every address", text)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

func (c Config) checkPublicURL() error {
	if c.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil:
		return errors.New("it is not a URL")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil: // the value is not quoted, because it may contain a password
		return errors.New("it has a query, a fragment or a user")
	case u.Host == "" || u.Scheme != "https" && !isLoopbackHTTP(u):
		return fmt.Errorf("%q is neither https://… nor http:// on loopback", c.PublicURL)
	}
	return nil
}

func isLoopbackHTTP(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
