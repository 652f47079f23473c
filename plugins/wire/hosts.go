// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// HostsOf returns the hosts of Hosts, to which calls with the connection may connect. If Hosts is
// empty, calls may connect to every host. An entry such as {api_url} becomes the host in the value
// of that field. A field whose value contains no host, or contains a pattern, adds nothing.
func (d Description) HostsOf(c Connection) []string {
	var hosts []string
	for _, entry := range d.Hosts {
		if name, isField := cutBraces(entry); isField {
			value := c.Settings[name]
			// A secret that is not a URL is a token or a password and contains no host.
			if secret := c.Secrets[name].Reveal(); strings.Contains(secret, "://") {
				value = secret
			}
			if entry = hostIn(value); strings.Contains(entry, "*") {
				entry = "" // an account must not allow more than one host
			}
		}
		if entry != "" {
			hosts = append(hosts, asciiHost(entry))
		}
	}
	return hosts
}

// Reaches returns the hosts in Hosts, sorted, in a form for people. operator has the operator's
// settings. An entry such as {api_url} becomes the host in the value of the field. The value is the
// operator's setting, or the default if the setting is empty or accounts set the field. If the
// value contains no host, the entry becomes the name of the field, such as <api_url>.
func (d Description) Reaches(operator map[string]string) []string {
	hosts := []string{}
	for _, entry := range d.Hosts {
		name, isField := cutBraces(entry)
		if !isField {
			hosts = append(hosts, plainName(entry))
			continue
		}
		value, placeholder := operator[name], "<"+name+">"
		if i := slices.IndexFunc(d.Fields, func(f Field) bool { return f.Name == name }); i >= 0 {
			if d.Fields[i].Account {
				value, placeholder = "", "<"+name+" of the account>"
			}
			value = cmp.Or(value, d.Fields[i].Default)
		}
		hosts = append(hosts, cmp.Or(plainName(hostIn(value)), placeholder))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// cutBraces returns the name of the field in an entry such as {api_url}.
func cutBraces(entry string) (name string, ok bool) {
	inner, opened := strings.CutPrefix(entry, "{")
	name, closed := strings.CutSuffix(inner, "}")
	return name, opened && closed
}

// hostIn returns the host in a URL, or in a URL without its scheme, such as host:port. It returns
// an IP address unchanged, and "" if value contains no host.
func hostIn(value string) string {
	value, _, _ = strings.Cut(strings.TrimSpace(value), "#") // the part after the # can be a token
	if _, err := netip.ParseAddr(value); err == nil {
		return value
	}
	if !strings.Contains(value, "://") {
		value = "//" + value
	}
	u, err := url.Parse(value)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// asciiHost returns the plainName of a host or of a pattern such as *.example.com, with A-labels
// instead of U-labels. Package net/http connects to A-labels, but the URL of a request has the
// labels that the account entered. asciiHost makes the two comparable.
func asciiHost(host string) string {
	name, isPattern := strings.CutPrefix(host, "*.")
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	if isPattern {
		name = "*." + name
	}
	return plainName(name)
}

type hostsKey struct{}

// WithHosts returns a context whose requests may go only to these hosts. Each entry is a host or a
// pattern such as *.acme.com.
func WithHosts(ctx context.Context, hosts []string) context.Context {
	return context.WithValue(ctx, hostsKey{}, hosts)
}

// MayConnect reports whether a request with this context may go to a host. If the context does not
// come from WithHosts, every host is allowed.
func MayConnect(ctx context.Context, host string) bool {
	hosts, isLimited := ctx.Value(hostsKey{}).([]string)
	host = asciiHost(host)
	return !isLimited || slices.ContainsFunc(hosts, func(pattern string) bool {
		suffix, isPattern := strings.CutPrefix(pattern, "*")
		return pattern == host || isPattern && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	})
}
