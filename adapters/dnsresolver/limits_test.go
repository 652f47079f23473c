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

// testAddress returns the address of the server with number i.
func testAddress(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, byte(i >> 8), byte(i)}), 53)
}

// occupy acquires slots for questions of an account to different servers, until the account would
// have to wait. It returns the functions that release the slots.
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
	waiting := s.enqueue(account, addr, maxPerAddress)
	select {
	case <-waiting.granted:
		return func() { s.release(waiting) }
	default:
		s.abandon(waiting)
		return nil
	}
}

func TestConcurrentQuestionsPerServerAreLimited(t *testing.T) {
	s := newSlots(maxServerQuestions)
	var release func()
	for range maxPerAddress {
		if release = tryAcquire(s, testAccount, testAddress(1)); release == nil {
			t.Fatalf("a question has to wait, want %d slots for one server", maxPerAddress)
		}
	}
	if tryAcquire(s, testAccount, testAddress(1)) != nil {
		t.Fatalf("more than %d questions to one server got a slot", maxPerAddress)
	}
	if tryAcquire(s, testAccount, testAddress(2)) == nil {
		t.Fatal("a question to a different server has to wait, want a slot")
	}
	release()
	if tryAcquire(s, testAccount, testAddress(1)) == nil {
		t.Fatal("a question has to wait after a slot was released, want the slot")
	}
}

// TestQuestionsOfAnAccountLeaveSlotsFree checks that the first question of an account gets a slot
// at once while the accounts before it use as many slots as they may. It also checks the total
// limit.
func TestQuestionsOfAnAccountLeaveSlotsFree(t *testing.T) {
	s := newSlots(maxServerQuestions)
	var releases []func()
	for _, account := range []access.AccountID{"ann", "bob", "eve", "joe"} {
		releasesOfAccount := occupy(t, s, account)
		if len(releasesOfAccount) == 0 {
			t.Fatalf("%s has to wait while other accounts use %d slots, want a slot at once", account, len(releases))
		}
		releases = append(releases, releasesOfAccount...)
	}
	for n := range 2 * maxServerQuestions {
		if release := tryAcquire(s, access.AccountID(fmt.Sprint(n)), testAddress(n)); release != nil {
			releases = append(releases, release)
		}
	}
	if len(releases) != maxServerQuestions {
		t.Errorf("%d questions have a slot, want %d", len(releases), maxServerQuestions)
	}
	for _, release := range releases {
		release()
	}
	if s.inUse != 0 || len(s.accounts) != 0 || len(s.addresses) != 0 {
		t.Errorf("after all slots were released: %+v, want no slot in use and no account", s)
	}
}

// TestFreedSlotGoesToTheAccountWithTheFewestSlots checks that a released slot goes to the first
// question of the account eve, although a question of ann, who has a slot, has waited for longer.
// An earlier question of eve that was cancelled must not keep a slot.
func TestFreedSlotGoesToTheAccountWithTheFewestSlots(t *testing.T) {
	s := newSlots(8)
	releases := occupy(t, s, "ann")
	questionOfAnn := s.enqueue("ann", testAddress(98), maxPerAddress)
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
		t.Fatalf("a cancelled question: got %v, want %v", err, context.Canceled)
	}
	questionOfEve := s.enqueue("eve", testAddress(99), maxPerAddress)
	releases[0]()
	<-questionOfEve.granted
	select {
	case <-questionOfAnn.granted:
		t.Error("ann got the released slot, want only eve to get it")
	default:
	}
}

// TestBusyServerDelaysNoOtherServer checks that questions that wait for a busy server use no slots.
func TestBusyServerDelaysNoOtherServer(t *testing.T) {
	s := newSlots(maxServerQuestions)
	for range maxServerQuestions {
		s.enqueue("ann", testAddress(1), maxPerAddress)
	}
	if s.inUse != maxPerAddress {
		t.Errorf("%d slots are in use for one server, want %d", s.inUse, maxPerAddress)
	}
	if tryAcquire(s, "ann", testAddress(2)) == nil || tryAcquire(s, "bob", testAddress(3)) == nil {
		t.Error("a question to a different server has to wait, want a slot")
	}
}

// TestResolversKeepTheirSlots checks that questions to resolvers and to servers of public suffixes
// get a slot although the same account uses all its slots for servers of domains.
func TestResolversKeepTheirSlots(t *testing.T) {
	reader := New(Options{Resolvers: []string{"192.0.2.1"}})
	occupy(t, reader.client.serverSlots, testAccount)
	for _, mode := range []queryMode{modeResolver, modeUnchecked, modeResolverAsServer, modeRegistry} {
		release, err := reader.client.acquire(withAccount(t.Context(), testAccount), testAddress(1), mode)
		if err != nil {
			t.Fatalf("a question with the mode %+v: got %v, want a slot", mode, err)
		}
		defer release()
	}
}

func TestCacheIsBounded(t *testing.T) {
	var cache ttlCache[zone]
	for i := range 2 * cacheMaxEntries {
		cache.put(string(rune(i)), zone{})
	}
	if len(cache.entries) > cacheMaxEntries {
		t.Fatalf("the cache has %d zones, want at most %d", len(cache.entries), cacheMaxEntries)
	}
}
