// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

var now = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

const (
	tenantOne = "aaaaaaaa-0000-4000-8000-000000000001"
	tenantTwo = "bbbbbbbb-0000-4000-8000-000000000002"
)

func TestAScopeAllowsOnlyTheScopesThatItCovers(t *testing.T) {
	for _, tc := range []struct {
		granted, required access.Scope
		want              bool
	}{
		{"*", "tenants:write", true},
		{"*", "*", true},
		{"*", "events:*", true},
		{"tenants:*", "tenants:read", true},
		{"tenants:*", "tenants:write", true},
		{"tenants:write", "tenants:read", true},
		{"tenants:write", "tenants:*", true},
		{"tenants:read", "tenants:read", true},
		{"tenants:read", "tenants:write", false},
		{"tenants:read", "tenants:*", false},
		{"tenants:*", "domains:read", false},
		{"tenants:*", "*", false},
		{"tenants:write", "*", false},
		{"events:read", "events:*", false},
		{"tenants:read", access.NoScope, true},
	} {
		bounds := access.Bounds{Scopes: []access.Scope{tc.granted}}
		if got := bounds.Allows(tc.required); got != tc.want {
			t.Errorf("Allows(%s) with the scope %s: got %t, want %t", tc.required, tc.granted, got, tc.want)
		}
		if err := bounds.CheckScope(tc.required); (err == nil) != tc.want {
			t.Errorf("CheckScope(%s) with the scope %s: got %v, want success %t", tc.required, tc.granted, err, tc.want)
		}
	}
}

func TestCheckScopeNamesTheMissingScope(t *testing.T) {
	err := access.Bounds{Scopes: []access.Scope{"tenants:read"}}.CheckScope(access.DNSWrite)
	var refusal *fault.Error
	if !errors.Is(err, fault.InsufficientScope) || !errors.As(err, &refusal) || refusal.Values != access.DNSWrite {
		t.Fatalf("got %v, want insufficient_scope with the scope %s", err, access.DNSWrite)
	}
}

func TestNewBoundsNamesTheInvalidField(t *testing.T) {
	everyScope := []string{"*"}
	for _, tc := range []struct {
		name                      string
		scopes, tenants, networks []string
		expiresAt                 *time.Time
		wantField                 string // the field that the error names, empty if the bounds are valid
	}{
		{"only the scope *", everyScope, nil, nil, nil, ""},
		{"bounds of each kind", []string{"domains:write", "tenants:*"}, []string{tenantOne}, []string{"192.0.2.0/24", "2001:db8::/32"}, new(now.Add(time.Hour)), ""},
		{"no scope", nil, nil, nil, nil, "scopes"},
		{"an unknown scope", []string{"tenants:delete"}, nil, nil, nil, "scopes"},
		{"a resource without read, write or *", []string{"tenants"}, nil, nil, nil, "scopes"},
		{"the marker of operations without a scope", []string{"none"}, nil, nil, nil, "scopes"},
		{"a scope that no operation has", []string{"events:write"}, nil, nil, nil, "scopes"},
		{"an empty list of tenants", everyScope, []string{}, nil, nil, "tenant_ids"},
		{"a malformed tenant", everyScope, []string{"x"}, nil, nil, "tenant_ids"},
		{"an empty list of networks", everyScope, nil, []string{}, nil, "allowed_cidrs"},
		{"an address without a prefix length", everyScope, nil, []string{"192.0.2.1"}, nil, "allowed_cidrs"},
		{"an IPv4 network in IPv6 notation", everyScope, nil, []string{"::ffff:192.0.2.0/120"}, nil, "allowed_cidrs"},
		{"100 tenants", everyScope, slices.Repeat([]string{tenantOne}, 100), nil, nil, ""},
		{"101 scopes", slices.Repeat(everyScope, 101), nil, nil, nil, "scopes"},
		{"101 tenants", everyScope, slices.Repeat([]string{tenantOne}, 101), nil, nil, "tenant_ids"},
		{"101 networks", everyScope, nil, slices.Repeat([]string{"192.0.2.0/24"}, 101), nil, "allowed_cidrs"},
		{"an expiry now", everyScope, nil, nil, new(now), "expires_at"},
		{"the zero time as expiry", everyScope, nil, nil, new(time.Time{}), "expires_at"},
		{"an expiry in the year 10000", everyScope, nil, nil, new(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "expires_at"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := access.NewBounds(tc.scopes, tc.tenants, tc.networks, tc.expiresAt, now)
			if tc.wantField == "" && err == nil {
				return
			}
			var refusal *fault.Error
			if !errors.Is(err, fault.InvalidRequest) || !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Name != tc.wantField {
				t.Fatalf("got %+v, want an error in the field %q", err, tc.wantField)
			}
		})
	}
}

func TestEquivalentBoundsHaveEqualTexts(t *testing.T) {
	unsorted, err := access.NewBounds([]string{"tenants:read", "dns:*", "dns:*"}, []string{tenantTwo, "AAAAAAAA-0000-4000-8000-000000000001"},
		[]string{"192.0.2.77/24", "10.0.0.0/8"}, new(now.Add(time.Hour)), now)
	if err != nil {
		t.Fatal(err)
	}
	normalized, err := access.NewBounds([]string{"dns:*", "tenants:read"}, []string{tenantOne, tenantTwo}, []string{"10.0.0.0/8", "192.0.2.0/24"}, new(now.Add(time.Hour)), now)
	if err != nil || unsorted.Text() != normalized.Text() {
		t.Fatalf("the texts %s and %s differ (error %v)", unsorted.Text(), normalized.Text(), err)
	}
}

func TestCheckUseRefusesAddressesThatAreNotAllowedAndExpiredKeys(t *testing.T) {
	bounded := access.Bounds{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}, ExpiresAt: now}
	for _, tc := range []struct {
		name   string
		bounds access.Bounds
		from   netip.Addr
		at     time.Time
		want   error
	}{
		{"no bounds", access.Unbounded(), netip.Addr{}, now, nil},
		{"an allowed address", bounded, netip.MustParseAddr("192.0.2.9"), now.Add(-1), nil},
		{"an allowed IPv6 address", bounded, netip.MustParseAddr("2001:db8::9"), now.Add(-1), nil},
		{"a different address", bounded, netip.MustParseAddr("192.0.3.9"), now.Add(-1), fault.InvalidAPIKey},
		{"an unknown address", bounded, netip.Addr{}, now.Add(-1), fault.InvalidAPIKey},
		{"an expired key", bounded, netip.MustParseAddr("192.0.2.9"), now, fault.InvalidAPIKey},
	} {
		if err := tc.bounds.CheckUse(tc.from, tc.at); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestBoundsCoverOnlyEqualOrNarrowerBounds(t *testing.T) {
	limited, err := access.NewBounds([]string{"keys:write", "tenants:*", "dns:read"}, []string{tenantOne}, []string{"10.0.0.0/8"}, new(now.Add(time.Hour)), now)
	if err != nil {
		t.Fatal(err)
	}
	limitedWith := func(change func(*access.Bounds)) access.Bounds {
		b := limited
		change(&b)
		return b
	}
	for _, tc := range []struct {
		name      string
		checked   access.Bounds
		wantScope access.Scope // the scope in the error, empty if limited covers the checked bounds
	}{
		{"the same bounds", limited, ""},
		{"a narrower scope", limitedWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"tenants:read"} }), ""},
		{"a scope that is not covered", limitedWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"dns:write"} }), "dns:write"},
		{"every scope", limitedWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"*"} }), "*"},
		{"an additional tenant", limitedWith(func(b *access.Bounds) { b.Tenants = append(slices.Clone(b.Tenants), tenantTwo) }), "keys:write"},
		{"all tenants", limitedWith(func(b *access.Bounds) { b.Tenants = nil }), "keys:write"},
		{"a smaller network", limitedWith(func(b *access.Bounds) { b.Networks = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")} }), ""},
		{"a larger network", limitedWith(func(b *access.Bounds) { b.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/7")} }), "keys:write"},
		{"all addresses", limitedWith(func(b *access.Bounds) { b.Networks = nil }), "keys:write"},
		{"an earlier expiry", limitedWith(func(b *access.Bounds) { b.ExpiresAt = now.Add(time.Minute) }), ""},
		{"a later expiry", limitedWith(func(b *access.Bounds) { b.ExpiresAt = now.Add(2 * time.Hour) }), "keys:write"},
		{"no expiry", limitedWith(func(b *access.Bounds) { b.ExpiresAt = time.Time{} }), "keys:write"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := limited.CheckCovers(tc.checked, access.KeysWrite)
			var refusal *fault.Error
			if errors.As(err, &refusal) != (tc.wantScope != "") || tc.wantScope != "" && (refusal.Values != tc.wantScope || refusal.Code != fault.InsufficientScope) {
				t.Fatalf("got %+v, want an error with the scope %q", err, tc.wantScope)
			}
			if err := access.Unbounded().CheckCovers(tc.checked, access.KeysWrite); err != nil {
				t.Errorf("a key without bounds: got %v, want no error", err)
			}
		})
	}
}

// TestNetworksCoverTogether checks that several networks of the creating key can together cover a
// network of the created key.
func TestNetworksCoverTogether(t *testing.T) {
	for _, tc := range []struct {
		creator, created string // networks
		want             bool
	}{
		{"192.0.2.0/25 192.0.2.128/25", "192.0.2.0/24", true},
		{"192.0.2.0/25 192.0.2.128/26 192.0.2.192/26", "192.0.2.0/24", true},
		{"192.0.2.0/25 192.0.2.128/26", "192.0.2.0/24", false},
		{"192.0.2.0/25 192.0.2.128/25", "192.0.2.0/23", false},
		{"0.0.0.0/1 128.0.0.0/1", "0.0.0.0/0", true},
		{"::/1 8000::/1", "::/0", true},
		{"::/1 8000::/2 c000::/3", "::/0", false},
		{"0.0.0.0/1 128.0.0.0/1", "::/0", false},
		{"2001:db8::/128 2001:db8::1/128", "2001:db8::/127", true},
		{"2001:db8::/128", "2001:db8::/127", false},
		{"2001:db8::/128", "2001:db8::/32", false},
	} {
		creator := access.Bounds{Scopes: access.Unbounded().Scopes, Networks: networksOf(t, tc.creator)}
		created := access.Bounds{Scopes: creator.Scopes, Networks: networksOf(t, tc.created)}
		if err := creator.CheckCovers(created, access.KeysWrite); (err == nil) != tc.want {
			t.Errorf("CheckCovers of %s by %s: got %v, want success %t", tc.created, tc.creator, err, tc.want)
		}
	}
}

// networksOf parses networks that are separated by spaces.
func networksOf(t *testing.T, text string) []netip.Prefix {
	t.Helper()
	b, err := access.NewBounds([]string{"*"}, nil, strings.Fields(text), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return b.Networks
}

// testAddresses are the addresses of random networks. The first two have the same /24 network.
var testAddresses = []string{"10.1.2.3", "10.1.2.131", "138.1.2.3"}

// drawBounds draws bounds from small sets of values, so that two draws often overlap.
func drawBounds(t *rapid.T, name string) access.Bounds {
	b := access.Bounds{
		Scopes: rapid.SliceOfNDistinct(rapid.SampledFrom(access.KeyScopes()), 1, 4, rapid.ID).Draw(t, name+" scopes"),
	}
	if rapid.Bool().Draw(t, name+" has tenants") {
		b.Tenants = rapid.SliceOfNDistinct(rapid.SampledFrom([]tenant.GUID{tenantOne, tenantTwo}), 1, 2, rapid.ID).Draw(t, name+" tenants")
	}
	if rapid.Bool().Draw(t, name+" has networks") {
		for range rapid.IntRange(1, 3).Draw(t, name+" networks") {
			address := rapid.SampledFrom(testAddresses).Draw(t, name+" address")
			bits := rapid.IntRange(0, 32).Draw(t, name+" bits")
			b.Networks = append(b.Networks, netip.PrefixFrom(netip.MustParseAddr(address), bits).Masked())
		}
	}
	if hours := rapid.IntRange(0, 3).Draw(t, name+" hours"); hours > 0 {
		b.ExpiresAt = now.Add(time.Duration(hours) * time.Hour)
	}
	return b
}

// drawSimilarBounds draws bounds and replaces each part by the part of model in half of the draws.
// Independent draws rarely cover each other.
func drawSimilarBounds(t *rapid.T, name string, model access.Bounds) access.Bounds {
	b := drawBounds(t, name)
	if rapid.Bool().Draw(t, name+" has the same scopes") {
		b.Scopes = model.Scopes
	}
	if rapid.Bool().Draw(t, name+" has the same tenants") {
		b.Tenants = model.Tenants
	}
	if rapid.Bool().Draw(t, name+" has the same networks") {
		b.Networks = model.Networks
	}
	if rapid.Bool().Draw(t, name+" has the same expiry") {
		b.ExpiresAt = model.ExpiresAt
	}
	return b
}

func TestCoveredBoundsPermitNothingMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		creator := drawBounds(t, "creator")
		created := drawSimilarBounds(t, "created", creator)
		if creator.CheckCovers(created, access.KeysWrite) != nil {
			return
		}
		for _, scope := range access.KeyScopes() {
			if created.Allows(scope) && !creator.Allows(scope) {
				t.Fatalf("the created bounds %+v allow the scope %s, the creator's %+v do not", created, scope, creator)
			}
		}
		for _, id := range []tenant.GUID{tenantOne, tenantTwo, "other"} {
			if created.AllowsTenant(id) && !creator.AllowsTenant(id) {
				t.Fatalf("the created bounds %+v allow the tenant %s, the creator's %+v do not", created, id, creator)
			}
		}
		for bits := range 33 {
			for _, address := range testAddresses {
				from := netip.PrefixFrom(netip.MustParseAddr(address), bits).Masked().Addr()
				for hour := range 5 {
					at := now.Add(time.Duration(hour) * time.Hour)
					if created.CheckUse(from, at) == nil && creator.CheckUse(from, at) != nil {
						t.Fatalf("the created bounds %+v allow a use from %s at %s, the creator's %+v do not", created, from, at, creator)
					}
				}
			}
		}
	})
}

func TestCheckCoversIsReflexiveAndTransitive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawBounds(t, "a")
		b := drawSimilarBounds(t, "b", a)
		c := drawSimilarBounds(t, "c", b)
		if err := a.CheckCovers(a, access.KeysWrite); err != nil {
			t.Fatalf("%+v does not cover itself: %v", a, err)
		}
		if a.CheckCovers(b, access.KeysWrite) == nil && b.CheckCovers(c, access.KeysWrite) == nil && a.CheckCovers(c, access.KeysWrite) != nil {
			t.Fatalf("a covers b and b covers c, but a does not cover c: a = %+v, b = %+v, c = %+v", a, b, c)
		}
	})
}

// TestEveryScopeIsCoveredByItsResource checks that a key can have the scope of each operation, and
// the scope of the whole resource, which covers it.
func TestEveryScopeIsCoveredByItsResource(t *testing.T) {
	for _, scope := range access.OperationScopes() {
		resource, _, _ := strings.Cut(string(scope), ":")
		wholeResource := access.Bounds{Scopes: []access.Scope{access.Scope(resource + ":*")}}
		if !wholeResource.Allows(scope) || !slices.Contains(access.KeyScopes(), scope) || !slices.Contains(access.KeyScopes(), wholeResource.Scopes[0]) {
			t.Errorf("%s is not covered by %s, or one of them is not in KeyScopes", scope, wholeResource.Scopes[0])
		}
	}
	if count := len(access.KeyScopes()); count != 29 {
		t.Errorf("KeyScopes has %d scopes, want 29", count)
	}
}
