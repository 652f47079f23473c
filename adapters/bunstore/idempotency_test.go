// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

// newClaim returns a claim of the account's key with this number.
func newClaim(owner access.AccountID, key byte) ports.Claim {
	return ports.Claim{
		Key:         idempotency.KeyID{Account: owner, Key: [32]byte{key}},
		Fingerprint: []byte{'f', key}, Lease: longLease, Now: now,
	}
}

// mustClaim claims a free key and returns the attempt id.
func mustClaim(t testing.TB, s *Store, claim ports.Claim) string {
	t.Helper()
	attempt, isClaimed, err := s.Claim(t.Context(), claim)
	must(t, "claim", err)
	if !isClaimed || attempt == "" {
		t.Fatalf("a free key: got the attempt %q, claimed %v, want an attempt that claimed the key", attempt, isClaimed)
	}
	return attempt
}

// requireRecord returns the record of a key. It fails the test if there is no record.
func requireRecord(t testing.TB, s *Store, key idempotency.KeyID) idempotency.Record {
	t.Helper()
	r, found, err := s.KeyRecord(t.Context(), key)
	must(t, "read the record", err)
	if !found {
		t.Fatal("the key has no record")
	}
	return r
}

func requireNoRecord(t testing.TB, label string, s *Store, key idempotency.KeyID) {
	t.Helper()
	if _, found, err := s.KeyRecord(t.Context(), key); err != nil || found {
		t.Fatalf("%s: the key has a record is %v (%v), want false", label, found, err)
	}
}

// requireLeaseHeld returns a function that checks the results of a write that needs a lease. The
// first result is false if the write changed nothing, for example because the lease was lost.
func requireLeaseHeld(t testing.TB, label string, want bool) func(stillHeld bool, err error) {
	return func(stillHeld bool, err error) {
		t.Helper()
		must(t, label, err)
		if stillHeld != want {
			t.Fatalf("%s: held is %v, want %v", label, stillHeld, want)
		}
	}
}

func TestClaimOfKeyIsStoredAsItWasMade(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		requireNoRecord(t, "before the claim", s, claim.Key)
		attempt := mustClaim(t, s, claim)
		record := requireRecord(t, s, claim.Key)
		if record.Attempt != attempt || !bytes.Equal(record.Fingerprint, claim.Fingerprint) || record.Answer != nil || !record.Leased ||
			!record.ExpiresAt.Equal(now.Truncate(time.Microsecond).Add(idempotency.Retention)) {
			t.Fatalf("the record is %+v, want the claim with a lease and no answer", record)
		}
	})
}

func TestOneOfConcurrentClaimsOfIdempotencyKeySucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		isClaimed := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			_, isClaimed[i], err = s.Claim(t.Context(), claim)
			return err
		}) {
			must(t, "claim", err)
		}
		if n := countTrue(isClaimed); n != 1 {
			t.Fatalf("%d claims succeeded, want 1", n)
		}
	})
}

func TestAccountsDoNotShareIdempotencyKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newClaim(newAccount(t, s, "ann"), 1), newClaim(newAccount(t, s, "bob"), 1)
		attempt := mustClaim(t, s, ann)
		requireNoRecord(t, "bob's", s, bob.Key)
		requireLeaseHeld(t, "finish for bob", false)(s.Finish(t.Context(), storedAnswerOf(bob.Key, attempt, []byte("x"), now)))
		requireLeaseHeld(t, "abandon for bob", false)(s.Abandon(t.Context(), bob.Key, attempt, now))
		requireLeaseHeld(t, "release for bob", false)(s.Release(t.Context(), bob.Key, attempt))
		requireLeaseHeld(t, "renew for bob", false)(s.RenewKeyLease(t.Context(), bob.Key, attempt, longLease))
		mustClaim(t, s, bob)
		if record := requireRecord(t, s, ann.Key); record.Attempt != attempt || record.Answer != nil {
			t.Fatalf("the record of ann became %+v, want it unchanged", record)
		}
	})
}

func TestAnswerIsStoredUnchangedAndMayBeStoredTwice(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		attempt := mustClaim(t, s, claim)
		answer, until := bytes.Repeat([]byte{0, 255, '\'', '?'}, 64<<10), now.Add(time.Hour)
		for range 2 {
			requireLeaseHeld(t, "finish", true)(s.Finish(t.Context(), storedAnswerOf(claim.Key, attempt, answer, until)))
		}
		record := requireRecord(t, s, claim.Key)
		if !bytes.Equal(record.Answer, answer) || record.Leased || !record.ExpiresAt.Equal(until) {
			t.Fatalf("got %d bytes, leased %v, until %v, want %d bytes without a lease until %v", len(record.Answer), record.Leased, record.ExpiresAt, len(answer), until)
		}
		_, isClaimed, err := s.Claim(t.Context(), claim)
		must(t, "claim again", err)
		if isClaimed {
			t.Fatal("a finished key was claimed")
		}
		requireLeaseHeld(t, "release of an answer", false)(s.Release(t.Context(), claim.Key, attempt))
		requireLeaseHeld(t, "abandon of an answer", false)(s.Abandon(t.Context(), claim.Key, attempt, until))
	})
}

func TestReleasedIdempotencyKeyIsFree(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		releasedAttempt := mustClaim(t, s, claim)
		requireLeaseHeld(t, "release", true)(s.Release(t.Context(), claim.Key, releasedAttempt))
		requireNoRecord(t, "released", s, claim.Key)
		if attempt := mustClaim(t, s, claim); attempt == releasedAttempt {
			t.Fatal("two attempts have the same id")
		}
		requireLeaseHeld(t, "finish of the released attempt", false)(s.Finish(t.Context(), storedAnswerOf(claim.Key, releasedAttempt, []byte("late"), now)))
	})
}

func TestExpiredIdempotencyKeysAreDeletedInBatches(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		for i := range byte(5) {
			claim := newClaim(owner, i)
			attempt := mustClaim(t, s, claim)
			requireLeaseHeld(t, "finish", true)(s.Finish(t.Context(), storedAnswerOf(claim.Key, attempt, []byte("x"), now.Add(time.Duration(4-i)*time.Second))))
		}
		running := newClaim(owner, 9)
		running.Now = now.Add(-2 * idempotency.Retention) // the key has expired, but its attempt holds a lease
		mustClaim(t, s, running)
		at := now.Add(2 * time.Second)
		for _, want := range []int{2, 1, 0} {
			if n, err := s.Reap(t.Context(), at, 2); err != nil || n != want {
				t.Fatalf("Reap deleted %d keys (%v), want %d", n, err, want)
			}
		}
		for _, key := range []byte{2, 3, 4} { // their answers expire at most two seconds after now
			requireNoRecord(t, "expired", s, newClaim(owner, key).Key)
		}
		for _, key := range []byte{0, 1, 9} {
			requireRecord(t, s, newClaim(owner, key).Key)
		}
	})
}

func TestIdempotencyKeysOfClosedAccountAreDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		claim := newClaim(owner, 1)
		mustClaim(t, s, claim)
		_, err := s.CloseAccount(t.Context(), owner, now)
		must(t, "close", err)
		requireNoRecord(t, "of a closed account", s, claim.Key)
	})
}

func countTrue(values []bool) int {
	n := 0
	for _, value := range values {
		if value {
			n++
		}
	}
	return n
}

// expiredLease is a lease that has already expired when it begins. longLease ends after the test.
const expiredLease, longLease = -time.Second, time.Hour

// retryUntilWon repeats a claim until the earlier lease has expired and the claim succeeds. It
// fails the test after hangTimeout.
func retryUntilWon(t testing.TB, claim func() (bool, error)) {
	t.Helper()
	for end := time.Now().Add(hangTimeout); ; {
		isClaimed, err := claim()
		must(t, "claim", err)
		if isClaimed {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the lease did not end in %s", hangTimeout)
		}
	}
}

func TestIdempotencyKeyIsTakenOverOnceAfterItsLeaseExpires(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		expiredAttempt := mustClaim(t, s, claim)
		_, isClaimed, err := s.TakeOver(t.Context(), expiredAttempt, claim)
		must(t, "take over before the lease expires", err)
		if isClaimed {
			t.Fatal("a lease that has not expired was taken over")
		}
		requireLeaseHeld(t, "let the lease end", true)(s.RenewKeyLease(t.Context(), claim.Key, expiredAttempt, expiredLease))
		if requireRecord(t, s, claim.Key).Leased {
			t.Fatal("the key is leased although the lease has expired")
		}
		hasTakenOver := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			_, hasTakenOver[i], err = s.TakeOver(t.Context(), expiredAttempt, claim)
			return err
		}) {
			must(t, "take over", err)
		}
		if n := countTrue(hasTakenOver); n != 1 {
			t.Fatalf("%d attempts took the key over, want 1", n)
		}
	})
}

func TestAttemptThatLostItsKeyStoresNoAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		claim.Lease = expiredLease
		lostAttempt := mustClaim(t, s, claim)
		claim.Lease, claim.Fingerprint = longLease, []byte("different request")
		currentAttempt, isClaimed, err := s.TakeOver(t.Context(), lostAttempt, claim)
		must(t, "take over", err)
		if !isClaimed || currentAttempt == lostAttempt {
			t.Fatalf("taken over is %v, want true; the attempt is %q, want a different one than %q", isClaimed, currentAttempt, lostAttempt)
		}
		requireLeaseHeld(t, "renew", false)(s.RenewKeyLease(t.Context(), claim.Key, lostAttempt, time.Hour))
		requireLeaseHeld(t, "finish", false)(s.Finish(t.Context(), storedAnswerOf(claim.Key, lostAttempt, []byte("late"), now)))
		requireLeaseHeld(t, "abandon", false)(s.Abandon(t.Context(), claim.Key, lostAttempt, now))
		requireLeaseHeld(t, "release", false)(s.Release(t.Context(), claim.Key, lostAttempt))
		if record := requireRecord(t, s, claim.Key); record.Attempt != currentAttempt || record.Answer != nil || !record.Leased || string(record.Fingerprint) != "different request" {
			t.Fatalf("the record is %+v, want the leased claim of the attempt %s", record, currentAttempt)
		}
		requireLeaseHeld(t, "finish by the current attempt", true)(s.Finish(t.Context(), storedAnswerOf(claim.Key, currentAttempt, []byte("right"), now.Add(time.Hour))))
	})
}

func TestLeasesOfIdempotencyKeysFollowDatabaseClock(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		attempt := mustClaim(t, s, claim)
		claim.Now = now.Add(1000 * time.Hour)
		if _, isClaimed, err := s.TakeOver(t.Context(), attempt, claim); err != nil || isClaimed {
			t.Fatalf("by the caller's clock: taken over is %v (%v), want false", isClaimed, err)
		}
		requireLeaseHeld(t, "shorten the lease", true)(s.RenewKeyLease(t.Context(), claim.Key, attempt, time.Millisecond))
		retryUntilWon(t, func() (bool, error) {
			_, isClaimed, err := s.TakeOver(t.Context(), attempt, claim)
			return isClaimed, err
		})
	})
}

func TestIdempotencyKeyOfAbandonedAttemptCanBeTakenOverAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		abandonedAttempt := mustClaim(t, s, claim)
		requireLeaseHeld(t, "abandon", true)(s.Abandon(t.Context(), claim.Key, abandonedAttempt, now.Add(time.Hour)))
		if record := requireRecord(t, s, claim.Key); record.Leased || record.Answer != nil || !record.ExpiresAt.Equal(now.Add(time.Hour).Truncate(time.Microsecond)) {
			t.Fatalf("the record is %+v, want no lease, no answer and the new expiry", record)
		}
		if _, isClaimed, err := s.TakeOver(t.Context(), abandonedAttempt, claim); err != nil || !isClaimed {
			t.Fatalf("the key of an abandoned attempt was not taken over: %v", err)
		}
	})
}

func TestAnswerIsReplacedOnlyWhenItHasExpired(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		claim := newClaim(newAccount(t, s, "ann"), 1)
		attempt := mustClaim(t, s, claim)
		until := now.Truncate(time.Microsecond).Add(time.Hour)
		requireLeaseHeld(t, "finish", true)(s.Finish(t.Context(), storedAnswerOf(claim.Key, attempt, []byte("answer"), until)))
		claim.Now = until.Add(-time.Microsecond)
		if _, isClaimed, err := s.TakeOver(t.Context(), attempt, claim); err != nil || isClaimed {
			t.Fatalf("just before the answer expires: taken over is %v (%v), want false", isClaimed, err)
		}
		claim.Now = until
		if _, isClaimed, err := s.TakeOver(t.Context(), attempt, claim); err != nil || !isClaimed {
			t.Fatalf("when the answer expires: taken over is %v (%v), want true", isClaimed, err)
		}
		if record := requireRecord(t, s, claim.Key); record.Answer != nil || !record.ExpiresAt.Equal(until.Add(idempotency.Retention)) {
			t.Fatalf("the record is %+v, want no answer and a new retention period", record)
		}
	})
}
