// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func mxValue(preference int, host string) string {
	return strconv.Itoa(preference) + " " + referred(host)
}

// parseMX reads an MX as an RRSet holds it. The host of a null MX is "".
func parseMX(value string) (preference int, host string, ok bool) {
	number, host, found := strings.Cut(value, " ")
	preference, err := strconv.Atoi(number)
	return preference, referred(host), found && err == nil && preference >= 0
}

// exchanges is a domain's MX, sorted by whose the values are.
type exchanges struct {
	desired, stale, foreign []string
	null, broken, ours      bool
}

func (l look) sortExchanges(values []string, want Record) exchanges {
	var x exchanges
	for _, value := range values {
		_, host, ok := parseMX(value)
		_, ours := l.wrote(Inbound, value)
		switch {
		case ok && host == "":
			x.null = true
		case ok && want.Content != "" && sameName(host, want.Content):
			x.desired = append(x.desired, value)
		case ok && l.proves(host):
		case ok && (ours || l.platforms(host, want.Content)):
			x.stale, x.ours = append(x.stale, value), x.ours || ours
		default:
			x.foreign = append(x.foreign, value)
			x.broken = x.broken || !ok || l.Beyond.Exchanges[host] != "" || address(host)
		}
	}
	return x
}

// proves reports whether a host only proves ownership: that form of the proof
// stays, as it takes no mail.
func (l look) proves(host string) bool {
	return slices.ContainsFunc(l.offered, func(r Record) bool { return r.Type == MX && sameName(r.Content, host) })
}

// platforms reports whether a host is another of the platform's for the same
// domain: by its name, or by beginning like the one that the platform names.
func (l look) platforms(host, desired string) bool {
	mine, _, _ := strings.Cut(referred(desired), ".")
	label, _, _ := strings.Cut(host, ".")
	return servesDomain(host, l.Domain) || desired != "" && label == mine && below(host, platformExchanges)
}

func address(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// inbound decides on the MX. Without a desired one, which the platform names
// only after verification, it only tells conflicts.
func (l look) inbound(want Record) verdict {
	values := l.at(want.Name, MX).Values
	if l.aliased() {
		return blocked(ReasonAliasAtDomain).seeing(l.at(l.Domain, CNAME).Values)
	}
	x := l.sortExchanges(values, want)
	return l.settleExchanges(x, want).seeing(values)
}

func (l look) settleExchanges(x exchanges, want Record) verdict {
	switch {
	case x.null:
		return blocked(ReasonMXNull)
	case len(x.foreign) > 0 && len(x.desired) > 0:
		return conflict(ReasonMXMixed)
	case x.broken:
		return blocked(ReasonMXBroken)
	case len(x.foreign) > 0:
		return blocked(ReasonMXOther)
	case want.Content == "":
		return preserve(ReasonPresent)
	case len(x.stale) > 0:
		return superseded(x, want)
	case len(x.desired) == 0:
		return create(want.Value())
	default:
		return preserve(ReasonPresent).noting(!slices.Contains(x.desired, want.Value()), NoteMXPreference)
	}
}

func superseded(x exchanges, want Record) verdict {
	why := ReasonMXMigration
	if x.ours {
		why = ReasonOwnSuperseded
	}
	if len(x.desired) > 0 {
		return update(why, x.stale)
	}
	return update(why, x.stale, want.Value())
}
