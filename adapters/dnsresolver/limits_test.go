// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/tenantry/tenantry/core/access"
)

func testAddress(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, byte(i >> 8), byte(i)}), 53)
}

// occupy takes slots of an account, each for a different server, until the account has to wait. It
// returns the functions that release the slots.
func occupy(t *testing.T, s *slots, account access.AccountID) (releases []func()) {
	t.Helper()
	for {
		release := tryAcquire(s, account, testAddress(s.inUse))
		if release == nil {
			return releases
		}
		releases = append(releases, release)
	}
}

// tryAcquire acquires a slot without waiting. It returns nil if the account would have to wait.
func tryAcquire(s *slots, account access.AccountID, addr netip.AddrPort) (release func()) {
	w := s.enqueue(account, addr, maxPerAddress)
	select {
	case <-w.granted:
		return func() { s.release(w) }
	default:
		s.abandon(w)
		return nil
	}
}

func TestConcurrentQuestionsPerServerAreLimited(t *testing.T) {
	s := newSlots(maxServerQuestions)
	var release func()
	for range maxPerAddress {
		if release = tryAcquire(s, testAccount, testAddress(1)); release == nil {
			t.Fatal("a slot for a server is missing")
		}
	}
	if tryAcquire(s, testAccount, testAddress(1)) != nil {
		t.Fatal("one question too many to a server")
	}
	if tryAcquire(s, testAccount, testAddress(2)) == nil {
		t.Fatal("a different server has to wait")
	}
	release()
	if tryAcquire(s, testAccount, testAddress(1)) == nil {
		t.Fatal("the slot was not released")
	}
}

// TestQuestionsOfAnAccountLeaveSlotsFree checks that the first question of each further account
// starts at once while all other accounts use as many slots as they may. The total limit must not
// be exceeded.
func TestQuestionsOfAnAccountLeaveSlotsFree(t *testing.T) {
	s := newSlots(maxServerQuestions)
	var releases []func()
	for _, account := range []access.AccountID{"ann", "bob", "eve", "joe"} {
		got := occupy(t, s, account)
		if len(got) == 0 {
			t.Fatalf("%s has to wait for %d questions of other accounts", account, len(releases))
		}
		releases = append(releases, got...)
	}
	for n := range 2 * maxServerQuestions {
		if release := tryAcquire(s, access.AccountID(fmt.Sprint(n)), testAddress(n)); release != nil {
			releases = append(releases, release)
		}
	}
	if len(releases) != maxServerQuestions {
		t.Errorf("%d questions at once, want %d", len(releases), maxServerQuestions)
	}
	for _, release := range releases {
		release()
	}
	if s.inUse != 0 || len(s.accounts) != 0 || len(s.addresses) != 0 {
		t.Errorf("after all questions: %+v, want no slot in use", s)
	}
}

// TestFreedSlotGoesToTheAccountWithTheFewestSlots checks that a free slot goes to the first
// question of a new account, not to an account that already uses many slots. It also checks that a
// cancelled question holds no slot.
func TestFreedSlotGoesToTheAccountWithTheFewestSlots(t *testing.T) {
	s := newSlots(8)
	releases := occupy(t, s, "ann")
	annWaiter := s.enqueue("ann", testAddress(98), maxPerAddress)
	releases = append(releases, occupy(t, s, "bob")...)
	for _, account := range []access.AccountID{"x", "y", "z"} {
		releases = append(releases, occupy(t, s, account)...)
	}
	if len(releases) != 8 {
		t.Fatalf("%d slots are in use, want 8", len(releases))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.acquire(ctx, "eve", testAddress(99), maxPerAddress); !errors.Is(err, context.Canceled) {
		t.Fatalf("a question without a slot: %v, want %v", err, context.Canceled)
	}
	eveWaiter := s.enqueue("eve", testAddress(99), maxPerAddress)
	releases[0]()
	<-eveWaiter.granted
	select {
	case <-annWaiter.granted:
		t.Error("the account with the most questions got a slot")
	default:
	}
}

// TestBusyServerDelaysNoOtherServer checks that questions that wait for a server take no slot.
func TestBusyServerDelaysNoOtherServer(t *testing.T) {
	s := newSlots(maxServerQuestions)
	for range maxServerQuestions {
		s.enqueue("ann", testAddress(1), maxPerAddress)
	}
	if s.inUse != maxPerAddress {
		t.Errorf("%d slots are in use for one server, want %d", s.inUse, maxPerAddress)
	}
	if tryAcquire(s, "ann", testAddress(2)) == nil || tryAcquire(s, "bob", testAddress(3)) == nil {
		t.Error("a different server has to wait")
	}
}

// TestResolversKeepTheirSlots checks that silent servers of domains do not delay questions to
// resolvers and to servers of public suffixes. This must also hold for questions of the same
// account.
func TestResolversKeepTheirSlots(t *testing.T) {
	r := New(Options{Resolvers: []string{"192.0.2.1"}})
	occupy(t, r.client.serverSlots, testAccount)
	for _, mode := range []queryMode{modeResolver, modeUnchecked, modeResolverAsServer, modeRegistry} {
		release, err := r.client.acquire(withAccount(t.Context(), testAccount), testAddress(1), mode)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
}

func TestCacheIsBounded(t *testing.T) {
	var m ttlCache[zone]
	for i := range 2 * cacheMaxEntries {
		m.put(string(rune(i)), zone{})
	}
	if len(m.entries) > cacheMaxEntries {
		t.Fatalf("the cache has %d zones, want at most %d", len(m.entries), cacheMaxEntries)
	}
}
