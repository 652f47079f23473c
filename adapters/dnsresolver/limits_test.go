// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, 8, byte(i)}), 53)
}

func TestConcurrentQuestionsPerServerAreLimited(t *testing.T) {
	s := newSlots()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var release func()
	for range maxPerAddress {
		var err error
		if release, err = s.acquire(t.Context(), address(1), modeServer); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.acquire(gone, address(1), modeServer); !errors.Is(err, context.Canceled) {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := s.acquire(t.Context(), address(2), modeServer); err != nil {
		t.Fatalf("another server: %v", err)
	}
	release()
	if _, err := s.acquire(t.Context(), address(1), modeServer); err != nil {
		t.Fatalf("after one ended: %v", err)
	}
}

func TestConcurrentQuestionsAreLimited(t *testing.T) {
	s := newSlots()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var releases []func()
	for i := range maxInFlight {
		release, err := s.acquire(t.Context(), address(i), modeServer)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := s.acquire(gone, address(maxInFlight), modeServer); !errors.Is(err, context.Canceled) {
		t.Fatalf("one too many: %v", err)
	}
	for _, release := range releases {
		release()
	}
	if len(s.perAddress) != 0 || len(s.total) != 0 {
		t.Fatalf("%d addresses and %d slots are left over", len(s.perAddress), len(s.total))
	}
}

func TestCacheIsBounded(t *testing.T) {
	var m ttlCache[zone]
	for i := range 2 * cacheMaxEntries {
		m.put(string(rune(i)), zone{})
	}
	if len(m.entries) > cacheMaxEntries {
		t.Fatalf("%d zones", len(m.entries))
	}
}
