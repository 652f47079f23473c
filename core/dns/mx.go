// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func mxValue(preference int, host string) string {
	return strconv.Itoa(preference) + " " + normalName(host)
}

// parseMX parses an MX value of an RRSet. host is "" for a null MX. ok is false for an invalid
// value.
func parseMX(value string) (preference int, host string, ok bool) {
	preferenceText, host, found := strings.Cut(value, " ")
	preference, err := strconv.Atoi(preferenceText)
	return preference, normalName(host), found && err == nil && preference >= 0
}

// mxGroups is a domain's MX values in groups.
type mxGroups struct {
	desired  []string // values with the desired host
	stale    []string // other values of the platform or of tenantry, which the desired value replaces
	leftover []string // records that only proved ownership of the domain
	foreign  []string // all other values, except a null MX
	null     bool     // the domain has a null MX
	broken   bool     // a foreign value is invalid, or its host cannot receive mail
	managed  bool     // tenantry wrote a stale value
}

func (z zoneView) groupMX(values []string, want Record) mxGroups {
	var groups mxGroups
	for _, value := range values {
		_, host, ok := parseMX(value)
		_, managed := z.findWritten(Inbound, value)
		switch {
		case ok && host == "":
			groups.null = true
		case ok && want.Content != "" && sameName(host, want.Content):
			groups.desired = append(groups.desired, value)
		case ok && z.isVerificationHost(host):
			groups.leftover = append(groups.leftover, value)
		case ok && (managed || z.isPlatformHost(host, want.Content)):
			groups.stale, groups.managed = append(groups.stale, value), groups.managed || managed
		default:
			groups.foreign = append(groups.foreign, value)
			groups.broken = groups.broken || !ok || z.Referenced.Exchanges[host] != "" || isAddress(host)
		}
	}
	return groups
}

// isVerificationHost reports whether an MX host only proves that this tenant or an earlier tenant
// owns the domain. Such a host receives no mail.
func (z zoneView) isVerificationHost(host string) bool {
	return endsWithAny(host, z.hosts.Verification) ||
		slices.ContainsFunc(z.offered, func(r Record) bool { return r.Type == MX && sameName(r.Content, host) })
}

// isPlatformHost reports whether host is a host of the platform for this domain. The host must be
// in one of the platform's domains. Its name must also be derived from the domain, or begin with
// the same label as the desired host.
func (z zoneView) isPlatformHost(host, desired string) bool {
	desiredLabel, _, _ := strings.Cut(normalName(desired), ".")
	label, _, _ := strings.Cut(host, ".")
	return z.hosts.servesDomain(host, z.Domain) || desired != "" && label == desiredLabel && endsWithAny(host, z.hosts.Exchanges)
}

// hostSuffix matches the suffix that the platform adds to the host name for a domain with hyphens.
var hostSuffix = regexp.MustCompile(`^[0-9]{2}[a-z][0-9a-z]{0,3}$`)

// servesDomain reports whether a host is a current or earlier host of the platform for this domain.
// The first label of such a host is the domain with hyphens in place of dots: example.com becomes
// example-com. If the domain itself contains hyphens, the platform removes them and adds a suffix:
// my-shop.com becomes for example myshop-com01b. Some people write my-shop-com instead, so
// servesDomain accepts this label too. As a consequence, the host of my.shop.com also counts as a
// host of my-shop.com.
func (p PlatformHosts) servesDomain(host, domain string) bool {
	if !endsWithAny(host, p.Exchanges) {
		return false
	}
	domain = normalName(domain)
	label, _, _ := strings.Cut(normalName(host), ".")
	if label == strings.ReplaceAll(domain, ".", "-") {
		return true
	}
	bare := strings.ReplaceAll(domain, "-", "")
	suffix, found := strings.CutPrefix(label, strings.ReplaceAll(bare, ".", "-"))
	return found && bare != domain && hostSuffix.MatchString(suffix)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// decideMX decides on the MX records. The platform specifies the desired record only after
// verification. Until then, decideMX only detects conflicts.
func (z zoneView) decideMX(want Record) verdict {
	values := z.setAt(want.Name, MX).Values
	if z.domainIsCNAME() {
		return blockingConflict(ReasonAliasAtDomain).withObserved(z.setAt(z.Domain, CNAME).Values)
	}
	groups := z.groupMX(values, want)
	return z.decideMXGroups(groups, want).withObserved(values)
}

func (z zoneView) decideMXGroups(groups mxGroups, want Record) verdict {
	switch {
	case groups.null:
		return blockingConflict(ReasonMXNull)
	case len(groups.foreign) > 0 && len(groups.desired) > 0:
		return conflict(ReasonMXMixed)
	case groups.broken:
		return blockingConflict(ReasonMXBroken)
	case len(groups.foreign) > 0:
		return blockingConflict(ReasonMXOther)
	case want.Content == "":
		return preserve(ReasonPresent)
	case len(groups.stale) > 0 || len(groups.leftover) > 0:
		return replaceEarlierHosts(groups, want)
	case len(groups.desired) == 0:
		return create(want.Value())
	default:
		return preserve(ReasonPresent).withNoteIf(!slices.Contains(groups.desired, want.Value()), NoteMXPreference)
	}
}

// replaceEarlierHosts replaces stale values and removes verification records. The platform
// specifies the desired record only after verification, so verification records are no longer
// needed.
func replaceEarlierHosts(groups mxGroups, want Record) verdict {
	reason := ReasonMXMigration
	if groups.managed {
		reason = ReasonOwnSuperseded
	}
	v := update(reason, slices.Concat(groups.stale, groups.leftover))
	if len(groups.desired) == 0 {
		v.add = []string{want.Value()}
	}
	v.optional = len(groups.desired) > 0 && len(groups.stale) == 0
	return v
}
