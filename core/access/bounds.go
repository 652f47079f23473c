// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// Bounds are the limits of a key: its scopes, the tenants that it sees, the networks from which it
// may be used, and its expiry. The lists have no repetitions.
type Bounds struct {
	Scopes    []Scope
	Tenants   []tenant.GUID  // nil: all tenants of the account
	Networks  []netip.Prefix // nil: every address
	ExpiresAt time.Time      // zero: never
}

// Unbounded returns the bounds of a key that may do everything.
func Unbounded() Bounds { return Bounds{Scopes: []Scope{AnyScope}} }

// maxBoundEntries is the largest number of entries in one list of Bounds.
const maxBoundEntries = 100

// maxYear is the last year that RFC 3339 can express. NewBounds converts the expiry to UTC before
// it checks the year, because an offset can move a time into the next year.
const maxYear = 9999

// NewBounds returns bounds without repetitions, in the given order. A nil list of tenants or
// networks sets no bound. NewBounds fails with invalid_request for an empty list, a list of more
// than maxBoundEntries entries, an unknown scope, and a malformed id or network. It also fails if
// the expiry is not after now or is after the year maxYear. A nil expiresAt means that the key
// never expires.
func NewBounds(scopes, tenants, networks []string, expiresAt *time.Time, now time.Time) (Bounds, error) {
	for _, list := range []struct {
		name    string
		entries int
	}{{"scopes", len(scopes)}, {"tenant_ids", len(tenants)}, {"allowed_cidrs", len(networks)}} {
		if list.entries > maxBoundEntries {
			return Bounds{}, invalidBound(list.name, "must have at most "+strconv.Itoa(maxBoundEntries)+" entries")
		}
	}
	var b Bounds
	if expiresAt != nil {
		b.ExpiresAt = expiresAt.UTC().Truncate(time.Microsecond)
	}
	for _, s := range scopes {
		b.Scopes = append(b.Scopes, Scope(s))
	}
	if err := checkScopes(b.Scopes); err != nil {
		return Bounds{}, err
	}
	for _, raw := range tenants {
		id, ok := ident.Parse(raw)
		if !ok {
			return Bounds{}, invalidBound("tenant_ids", "each must be the GUID of a tenant")
		}
		b.Tenants = append(b.Tenants, tenant.GUID(id))
	}
	for _, raw := range networks {
		network, err := netip.ParsePrefix(raw)
		if err != nil || network.Addr().Is4In6() {
			return Bounds{}, invalidBound("allowed_cidrs", "each must be a network in CIDR notation, such as 192.0.2.0/24")
		}
		b.Networks = append(b.Networks, network.Masked())
	}
	switch {
	case tenants != nil && len(tenants) == 0:
		return Bounds{}, invalidBound("tenant_ids", "must have at least one tenant; omit it for all tenants")
	case networks != nil && len(networks) == 0:
		return Bounds{}, invalidBound("allowed_cidrs", "must have at least one network; omit it for all addresses")
	case expiresAt != nil && (!b.ExpiresAt.After(now) || b.ExpiresAt.Year() > maxYear):
		return Bounds{}, invalidBound("expires_at", "must be in the future, and before the year 10000 in UTC")
	}
	b.Scopes, b.Tenants, b.Networks = unique(b.Scopes), unique(b.Tenants), unique(b.Networks)
	return b, nil
}

// unique returns the list without repetitions, in its order. It returns nil for nil.
func unique[T comparable](list []T) []T {
	seen := map[T]bool{}
	return slices.DeleteFunc(list, func(t T) bool {
		known := seen[t]
		seen[t] = true
		return known
	})
}

func invalidBound(name, message string) error {
	return fault.InvalidRequest.At("a bound of the key is not valid", fault.Field{Name: name, Message: message})
}

// Allows reports whether a key with these bounds has a scope. Every key has NoScope.
func (b Bounds) Allows(required Scope) bool {
	return required == NoScope || slices.ContainsFunc(b.Scopes, func(s Scope) bool { return s.includes(required) })
}

// CheckScope fails with insufficient_scope if a key with these bounds does not have the scope.
func (b Bounds) CheckScope(required Scope) error {
	if b.Allows(required) {
		return nil
	}
	return insufficientScope(required, "the API key lacks the scope %s", required)
}

// CheckAllTenants fails with insufficient_scope if the key is limited to some tenants. Operations
// that can concern any tenant of the account call CheckAllTenants. The error contains required, the
// scope of the operation.
func (b Bounds) CheckAllTenants(required Scope) error {
	if b.Tenants == nil {
		return nil
	}
	return insufficientScope(required, "the operation needs an API key for all tenants of the account, and this key is limited to some")
}

// AllowsTenant reports whether a key with these bounds may see a tenant of its account.
func (b Bounds) AllowsTenant(id tenant.GUID) bool {
	return b.Tenants == nil || slices.Contains(b.Tenants, id)
}

// CheckUse fails with invalid_api_key if a key with these bounds must not be used at the time now,
// or by a request from this address. The error says which bound forbids the use.
func (b Bounds) CheckUse(from netip.Addr, now time.Time) error {
	if !b.ExpiresAt.IsZero() && !now.Before(b.ExpiresAt) {
		return fault.InvalidAPIKey.With("the API key has expired")
	}
	if b.Networks != nil && !slices.ContainsFunc(b.Networks, func(n netip.Prefix) bool { return n.Contains(from) }) {
		return fault.InvalidAPIKey.With("the API key is not allowed from the address of this request")
	}
	return nil
}

// CheckCovers fails with insufficient_scope if other allows a scope, a tenant or an address that b
// does not allow, or if other expires later than b. If b lacks a scope of other, the error contains
// that scope. Otherwise it contains required, which is the scope of the operation.
func (b Bounds) CheckCovers(other Bounds, required Scope) error {
	for _, s := range other.Scopes {
		if !b.Allows(s) {
			return insufficientScope(s, "the API key lacks the scope %s, so it cannot manage a key that holds it", s)
		}
	}
	switch {
	case b.Tenants != nil && (other.Tenants == nil || slices.ContainsFunc(other.Tenants, func(id tenant.GUID) bool { return !b.AllowsTenant(id) })):
		return insufficientScope(required, "the API key is limited to some tenants, so it cannot manage a key for others")
	case b.Networks != nil && (other.Networks == nil || slices.ContainsFunc(other.Networks, func(n netip.Prefix) bool { return !b.containsNetwork(n) })):
		return insufficientScope(required, "the API key is limited to some addresses, so it cannot manage a key for others")
	case !b.ExpiresAt.IsZero() && (other.ExpiresAt.IsZero() || other.ExpiresAt.After(b.ExpiresAt)):
		return insufficientScope(required, "the API key cannot manage a key that expires later than itself")
	}
	return nil
}

// containsNetwork reports whether the networks of b together contain all addresses of n. If no
// network contains n, but some networks are parts of n, containsNetwork checks each half of n.
func (b Bounds) containsNetwork(n netip.Prefix) bool {
	if slices.ContainsFunc(b.Networks, func(permitted netip.Prefix) bool { return permitted.Bits() <= n.Bits() && permitted.Contains(n.Addr()) }) {
		return true
	}
	if !slices.ContainsFunc(b.Networks, n.Overlaps) {
		return false
	}
	low, high := halves(n)
	return b.containsNetwork(low) && b.containsNetwork(high)
}

// halves splits a masked network of more than one address into two networks of equal size.
func halves(n netip.Prefix) (low, high netip.Prefix) {
	address, bits := n.Addr().AsSlice(), n.Bits()
	address[bits/8] |= 0x80 >> (bits % 8) // the first bit after the prefix
	firstOfHigh, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(n.Addr(), bits+1), netip.PrefixFrom(firstOfHigh, bits+1)
}

// Text returns the bounds as one line. Bounds whose lists differ only in their order have equal
// texts.
func (b Bounds) Text() string {
	networks := make([]string, 0, len(b.Networks))
	for _, n := range b.Networks {
		networks = append(networks, n.String())
	}
	parts := []string{joinSorted(Strings(b.Scopes)), joinSorted(Strings(b.Tenants)), joinSorted(networks), ""}
	if !b.ExpiresAt.IsZero() {
		parts[3] = b.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return strings.Join(parts, "|")
}

func joinSorted(words []string) string {
	return strings.Join(slices.Sorted(slices.Values(words)), " ")
}

// Strings returns scopes or tenants as strings. It returns nil for nil.
func Strings[W ~string](list []W) []string {
	if list == nil {
		return nil
	}
	words := make([]string, 0, len(list))
	for _, w := range list {
		words = append(words, string(w))
	}
	return words
}
