// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/tenantry/tenantry/core/egress"
)

func TestSpecialAddressesAreNotPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "10.1.2.3": false, "172.31.0.1": false,
		"192.168.1.1": false, "100.64.0.1": false, "169.254.169.254": false, "0.0.0.0": false, "255.255.255.255": false,
		"224.0.0.1": false, "fe80::1": false, "fd00::1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "fe80::1%eth0": false,
	} {
		if got := egress.IsPublic(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: public is %t, want %t", address, got, want)
		}
	}
	if egress.IsPublic(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

// TestIsPublicAgreesWithALibrary compares IsPublic with a library whose lists were generated from
// the registries of IANA. It compares the addresses around the borders of each special network, and
// random addresses.
func TestIsPublicAgreesWithALibrary(t *testing.T) {
	library := ssrf.New(ssrf.WithAnyPort())
	compare := func(address netip.Addr) {
		t.Helper()
		if !address.IsValid() {
			return
		}
		if got, want := egress.IsPublic(address), library.SafeAddr(address.Unmap()) == nil; got != want {
			t.Errorf("%s: public is %v, the library returns %v", address, got, want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	fillRandomly := func(b []byte) []byte {
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	specialNetworks := append(append([]netip.Prefix{ssrf.IPv6GlobalUnicast, ssrf.IPv6NAT64Prefix}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...)
	for _, network := range specialNetworks {
		firstAddress := network.Masked().Addr()
		lastBytes := firstAddress.AsSlice()
		for bit := network.Bits(); bit < firstAddress.BitLen(); bit++ {
			lastBytes[bit/8] |= 0x80 >> (bit % 8)
		}
		lastAddress, _ := netip.AddrFromSlice(lastBytes)
		for _, address := range []netip.Addr{firstAddress, firstAddress.Prev(), firstAddress.Next(), lastAddress, lastAddress.Prev(), lastAddress.Next()} {
			compare(address)
			if address.Is4() {
				compare(netip.AddrFrom16(address.As16()))
			}
		}
	}
	for range 100_000 {
		compare(netip.AddrFrom4([4]byte(fillRandomly(make([]byte, 4)))))
		v6 := fillRandomly(make([]byte, 16))
		compare(netip.AddrFrom16([16]byte(v6)))
		v6[0] = v6[0]&0x1f | 0x20 // within the public network
		compare(netip.AddrFrom16([16]byte(v6)))
	}
}
