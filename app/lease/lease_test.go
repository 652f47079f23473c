// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/panics"
)

// duration is the duration of most leases in these tests.
const duration = 30 * time.Second

// fakeStore is the store of a lease. Its method renew is the RenewFunc of the lease.
type fakeStore struct {
	renewals int           // the number of calls of renew
	taken    bool          // whether a different process holds the lease
	err      error         // the error of renew
	delay    time.Duration // the time that renew takes
}

func (s *fakeStore) renew(ctx context.Context, _ time.Duration) (bool, error) {
	s.renewals++
	select {
	case <-time.After(s.delay):
		return !s.taken, s.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func doNothing(context.Context) error { return nil }

func TestGuardWriteRenewsBeforeEachWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		lease := New(time.Now(), duration, store.renew)
		for range 2 {
			time.Sleep(duration / 2)
			var deadline time.Time
			if err := lease.GuardWrite(t.Context(), func(ctx context.Context) error { deadline, _ = ctx.Deadline(); return nil }); err != nil {
				t.Fatal(err)
			}
			if want := time.Now().Add(duration); !deadline.Equal(want) {
				t.Errorf("the write has the deadline %s, want %s", deadline, want)
			}
		}
		if store.renewals != 2 {
			t.Errorf("%d renewals, want 2", store.renewals)
		}
	})
}

func TestGuardWriteRefusesWritesWithoutTheLease(t *testing.T) {
	for name, tc := range map[string]struct {
		store     *fakeStore
		wantTaken bool
		wantErr   error
	}{
		"the lease was taken":                     {&fakeStore{taken: true}, true, ErrLost},
		"the database fails":                      {&fakeStore{err: errTest}, false, errTest},
		"the renewal takes longer than the lease": {&fakeStore{delay: duration + time.Second}, false, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := New(time.Now(), duration, tc.store.renew)
				err := lease.GuardWrite(t.Context(), func(context.Context) error { t.Error("GuardWrite ran the write"); return nil })
				if !errors.Is(err, tc.wantErr) || lease.IsTaken() != tc.wantTaken {
					t.Errorf("got %v, taken %v, want %v, taken %v", err, lease.IsTaken(), tc.wantErr, tc.wantTaken)
				}
			})
		})
	}
}

var errTest = errors.New("the database is away")

func TestOnlyAStaleLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		lease := New(time.Now(), duration, store.renew)
		for _, step := range []struct {
			sleep        time.Duration
			wantRenewals int // since the start of the test
		}{{duration / 7, 0}, {duration / 6, 1}, {duration / 7, 1}} {
			time.Sleep(step.sleep)
			if err := lease.RenewIfStale(t.Context()); err != nil || store.renewals != step.wantRenewals {
				t.Errorf("got %v after %d renewals, want no error after %d", err, store.renewals, step.wantRenewals)
			}
		}
	})
}

func TestExpiredLeaseStartsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := New(time.Now(), duration, (&fakeStore{}).renew)
		if err := lease.UntilExpiry(t.Context(), doNothing); err != nil {
			t.Error(err)
		}
		time.Sleep(duration)
		if err := lease.UntilExpiry(t.Context(), doNothing); !errors.Is(err, ErrLost) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrLost with context.DeadlineExceeded", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := New(time.Now(), duration, (&fakeStore{}).renew).UntilExpiry(canceled, doNothing); !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: got %v, want context.Canceled", err)
		}
	})
}

func TestRenewInBackgroundKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		lease := New(time.Now(), duration, store.renew)
		ctx, stop := lease.RenewInBackground(t.Context(), func(err error) { t.Errorf("the lease is lost: %v", err) })
		time.Sleep(10*duration - time.Second) // the 30th renewal is due a second later
		if err := lease.UntilExpiry(ctx, doNothing); err != nil || store.renewals != 29 {
			t.Errorf("got %v after %d renewals, want no error after 29", err, store.renewals)
		}
		stop()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the context ends with %v, want context.Canceled", context.Cause(ctx))
		}
	})
}

func TestLostLeaseEndsTheContext(t *testing.T) {
	for name, tc := range map[string]struct {
		store    *fakeStore
		wantTook time.Duration
	}{
		"the lease was taken":                               {&fakeStore{taken: true}, duration / 3},
		"the database fails for two thirds of the duration": {&fakeStore{err: errTest}, duration * 2 / 3},
		"the database does not answer":                      {&fakeStore{delay: time.Hour}, duration * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, lastErr := time.Now(), error(nil)
				lease := New(start, duration, tc.store.renew)
				ctx, stop := lease.RenewInBackground(t.Context(), func(err error) { lastErr = err })
				<-ctx.Done()
				if took := time.Since(start); took != tc.wantTook || !errors.Is(context.Cause(ctx), ErrLost) || lastErr == nil {
					t.Errorf("the context ended after %s with %v, and onLost got %v; want ErrLost after %s, and an error for onLost", took, context.Cause(ctx), lastErr, tc.wantTook)
				}
				stop()
			})
		})
	}
}

// TestLastRenewalEndsWithTheLease checks a lease of which a sixth of the duration passed before
// RenewInBackground. The first renewal fails, and the second gets no answer. The context ends when
// the lease expires.
func TestLastRenewalEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, renewals := time.Now(), 0
		time.Sleep(duration / 6)
		lease := New(start, duration, func(ctx context.Context, _ time.Duration) (bool, error) {
			if renewals++; renewals == 1 {
				return false, errTest
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		ctx, stop := lease.RenewInBackground(t.Context(), func(error) {})
		<-ctx.Done()
		if took := time.Since(start); took != duration || renewals != 2 {
			t.Errorf("the context ended after %s and %d renewals, want %s and 2", took, renewals, duration)
		}
		stop()
	})
}

// TestExpiredLeaseCanBeRenewed checks that an expired lease is renewed if no other process has
// acquired the lease. A lease can expire while its process is suspended.
func TestExpiredLeaseCanBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: time.Second}
		lease := New(time.Now().Add(-duration), duration, store.renew)
		ctx, stop := lease.RenewInBackground(t.Context(), func(err error) { t.Errorf("the lease is lost: %v", err) })
		time.Sleep(duration)
		if err := lease.UntilExpiry(ctx, doNothing); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// TestPanicOfARenewalReachesTheCallerOfStop checks that a panic in the background renewal ends the
// context of RenewInBackground, and continues in the goroutine that calls stop.
func TestPanicOfARenewalReachesTheCallerOfStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := New(time.Now(), time.Minute, func(context.Context, time.Duration) (bool, error) { panic("a fault in the store") })
		ctx, stop := lease.RenewInBackground(t.Context(), func(error) {})
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("the context ends with %v, want ErrLost", context.Cause(ctx))
		}
		var panicErr *panics.Error
		if err := panics.Catch(func() error { stop(); return nil }); !errors.As(err, &panicErr) {
			t.Errorf("stop: got %v, want the panic", err)
		}
	})
}
