// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/fault"
)

// Settings is what the operator sets for the connect pages of an account. With the zero Settings,
// the pages show no display name and no support contact, and no return URL is allowed.
type Settings struct {
	// DisplayName is the name of the account on the connect pages.
	DisplayName string
	// SupportURL is where an administrator finds help: an https or mailto URL.
	SupportURL string
	// ReturnHosts are the hosts to which the last connect page may link, in lower case. A
	// host without a port allows every port.
	ReturnHosts []string
}

const (
	maxDisplayNameLength = 100
	maxURLLength         = 2048
	maxReturnHosts       = 20
)

// Normalized returns the settings in the form in which they are stored. It fails with
// invalid_request when a value is malformed.
func (s Settings) Normalized() (Settings, error) {
	s.DisplayName = strings.TrimSpace(s.DisplayName)
	if utf8.RuneCountInString(s.DisplayName) > maxDisplayNameLength || strings.ContainsFunc(s.DisplayName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Settings{}, fault.InvalidRequest.With("the display name of an account has at most %d printable characters", maxDisplayNameLength)
	}
	if s.SupportURL != "" && !isSupportURL(s.SupportURL) {
		return Settings{}, fault.InvalidRequest.With("a support URL is an https URL or mailto:ADDRESS")
	}
	if len(s.ReturnHosts) > maxReturnHosts {
		return Settings{}, fault.InvalidRequest.With("an account has at most %d return hosts", maxReturnHosts)
	}
	var hosts []string
	for _, host := range s.ReturnHosts {
		host = strings.ToLower(strings.TrimSpace(host))
		if !isHostAndPort(host) {
			return Settings{}, fault.InvalidRequest.With("a return host must be a host name or an IP address, optionally with a port, and not a URL")
		}
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	s.ReturnHosts = slices.Compact(hosts)
	return s, nil
}

// isHostAndPort reports whether text is the host of a URL, optionally with a port. The host is a
// host name, an IPv4 address, or an IPv6 address in brackets.
func isHostAndPort(text string) bool {
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text || strings.HasSuffix(text, ":") {
		return false
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
		return false
	}
	if strings.HasPrefix(text, "[") {
		_, err := netip.ParseAddr(u.Hostname())
		return err == nil
	}
	for label := range strings.SplitSeq(u.Hostname(), ".") {
		isOther := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' }
		if label == "" || strings.ContainsFunc(label, isOther) {
			return false
		}
	}
	return true
}

func isSupportURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURLLength || u.User != nil {
		return false
	}
	return u.Scheme == "https" && u.Hostname() != "" || u.Scheme == "mailto" && CheckEmail(u.Opaque) == nil
}

// CheckReturnURL fails with invalid_return_url unless the text is a well-formed https URL whose
// host is one of ReturnHosts. The URL must not have user information, a fragment or more than
// maxURLLength bytes.
func (s Settings) CheckReturnURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURLLength || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(text, "#") {
		return fault.InvalidReturnURL.With("return_url must be an https URL without user information and fragment")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return fault.InvalidReturnURL.With("return_url has a malformed query")
	}
	host, _, err := net.SplitHostPort(u.Host)
	if err != nil {
		host = u.Host // u.Host has no port
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if !slices.Contains(s.ReturnHosts, strings.ToLower(u.Host)) && !slices.Contains(s.ReturnHosts, strings.ToLower(host)) {
		return fault.InvalidReturnURL.With("the host of return_url is not registered for this account")
	}
	return nil
}
