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

func TestOneServerGetsFewQuestionsAtOnce(t *testing.T) {
	s := newSlots()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var release func()
	for range maxPerAddress {
		var err error
		if release, err = s.take(t.Context(), address(1), asServer); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.take(gone, address(1), asServer); !errors.Is(err, context.Canceled) {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := s.take(t.Context(), address(2), asServer); err != nil {
		t.Fatalf("another server: %v", err)
	}
	release()
	if _, err := s.take(t.Context(), address(1), asServer); err != nil {
		t.Fatalf("after one ended: %v", err)
	}
}

func TestTheProcessAsksFewQuestionsAtOnce(t *testing.T) {
	s := newSlots()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var releases []func()
	for i := range maxInFlight {
		release, err := s.take(t.Context(), address(i), asServer)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := s.take(gone, address(maxInFlight), asServer); !errors.Is(err, context.Canceled) {
		t.Fatalf("one too many: %v", err)
	}
	for _, release := range releases {
		release()
	}
	if len(s.lanes) != 0 || len(s.all) != 0 {
		t.Fatalf("%d lanes, %d places are left over", len(s.lanes), len(s.all))
	}
}

func TestRememberedZonesDoNotPileUp(t *testing.T) {
	var m memory[zone]
	for i := range 2 * rememberMax {
		m.keep(string(rune(i)), zone{})
	}
	if len(m.held) > rememberMax {
		t.Fatalf("%d zones", len(m.held))
	}
}
