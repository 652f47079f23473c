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

// duration is the duration of the leases.
const duration = 30 * time.Second

// fakeStore is the store of a lease. Its method hold is the RenewFunc of the lease.
type fakeStore struct {
	renewals int
	taken    bool
	err      error
	delay    time.Duration
}

func (s *fakeStore) hold(ctx context.Context, _ time.Duration) (bool, error) {
	s.renewals++
	select {
	case <-time.After(s.delay):
		return !s.taken, s.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func doNothing(context.Context) error { return nil }

func TestGuardRenewsBeforeEachWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(time.Now(), duration, store.hold)
		for range 2 {
			time.Sleep(duration / 2)
			var deadline time.Time
			if err := l.GuardWrite(t.Context(), func(ctx context.Context) error { deadline, _ = ctx.Deadline(); return nil }); err != nil {
				t.Fatal(err)
			}
			if want := time.Now().Add(duration); !deadline.Equal(want) {
				t.Errorf("the write ends at %s, want %s", deadline, want)
			}
		}
		if store.renewals != 2 {
			t.Errorf("%d renewals, want 2", store.renewals)
		}
	})
}

func TestGuardRefusesWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		store *fakeStore
		taken bool
		want  error
	}{
		"the lease was taken":                     {&fakeStore{taken: true}, true, ErrLost},
		"the database fails":                      {&fakeStore{err: errTest}, false, errTest},
		"the renewal takes longer than the lease": {&fakeStore{delay: duration + time.Second}, false, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(time.Now(), duration, tt.store.hold)
				err := l.GuardWrite(t.Context(), func(context.Context) error { t.Error("the guard allowed the write"); return nil })
				if !errors.Is(err, tt.want) || l.IsTaken() != tt.taken {
					t.Errorf("got %v, taken %v, want %v, taken %v", err, l.IsTaken(), tt.want, tt.taken)
				}
			})
		})
	}
}

var errTest = errors.New("the database is away")

func TestFreshLeaseIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(time.Now(), duration, store.hold)
		for _, step := range []struct {
			sleep time.Duration
			want  int
		}{{duration / 7, 0}, {duration / 6, 1}, {duration / 7, 1}} {
			time.Sleep(step.sleep)
			if err := l.RenewIfStale(t.Context()); err != nil || store.renewals != step.want {
				t.Errorf("%v, %d renewals, want %d", err, store.renewals, step.want)
			}
		}
	})
}

func TestExpiredLeaseStartsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now(), duration, (&fakeStore{}).hold)
		if err := l.UntilExpiry(t.Context(), doNothing); err != nil {
			t.Error(err)
		}
		time.Sleep(duration)
		if err := l.UntilExpiry(t.Context(), doNothing); !errors.Is(err, ErrLost) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrLost with context.DeadlineExceeded", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := New(time.Now(), duration, (&fakeStore{}).hold).UntilExpiry(canceled, doNothing); !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled caller: %v", err)
		}
	})
}

func TestRenewInBackgroundKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(time.Now(), duration, store.hold)
		ctx, stop := l.RenewInBackground(t.Context(), func(err error) { t.Errorf("lost: %v", err) })
		time.Sleep(10 * duration)
		if err := l.UntilExpiry(ctx, doNothing); err != nil || store.renewals < 28 {
			t.Errorf("%v after %d renewals", err, store.renewals)
		}
		stop()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the context ends with %v", context.Cause(ctx))
		}
	})
}

func TestLostLeaseEndsTheContext(t *testing.T) {
	for name, tt := range map[string]struct {
		store *fakeStore
		after time.Duration
	}{
		"the lease was taken":                               {&fakeStore{taken: true}, duration / 3},
		"the database fails for two thirds of the duration": {&fakeStore{err: errTest}, duration * 2 / 3},
		"the database does not answer":                      {&fakeStore{delay: time.Hour}, duration * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, lastErr := time.Now(), error(nil)
				l := New(start, duration, tt.store.hold)
				ctx, stop := l.RenewInBackground(t.Context(), func(err error) { lastErr = err })
				<-ctx.Done()
				if took := time.Since(start); took != tt.after || !errors.Is(context.Cause(ctx), ErrLost) || lastErr == nil {
					t.Errorf("after %s, want %s: %v, %v", took, tt.after, context.Cause(ctx), lastErr)
				}
				stop()
			})
		})
	}
}

// TestLastRenewalEndsWithTheLease checks a lease whose request took a sixth of its duration. The
// first renewal fails, and the second gets no answer. The context ends when the lease expires.
func TestLastRenewalEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, renewals := time.Now(), 0
		time.Sleep(duration / 6)
		l := New(start, duration, func(ctx context.Context, _ time.Duration) (bool, error) {
			if renewals++; renewals == 1 {
				return false, errTest
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		ctx, stop := l.RenewInBackground(t.Context(), func(error) {})
		<-ctx.Done()
		if took := time.Since(start); took != duration || renewals != 2 {
			t.Errorf("the context ended after %s and %d renewals, want %s and 2", took, renewals, duration)
		}
		stop()
	})
}

// TestExpiredLeaseCanBeRenewed checks that a lease is renewed after its expiry if no one else has
// acquired it, for example after the process was suspended.
func TestExpiredLeaseCanBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: time.Second}
		l := New(time.Now().Add(-duration), duration, store.hold)
		ctx, stop := l.RenewInBackground(t.Context(), func(err error) { t.Errorf("lost: %v", err) })
		time.Sleep(duration)
		if err := l.UntilExpiry(ctx, doNothing); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// TestPanicOfARenewalReachesTheWork checks that a panic in the background renewal ends the context
// of RenewInBackground, and continues in the goroutine that calls stop.
func TestPanicOfARenewalReachesTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now(), time.Minute, func(context.Context, time.Duration) (bool, error) { panic("a fault in the store") })
		ctx, stop := l.RenewInBackground(t.Context(), func(error) {})
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		var p *panics.Error
		if err := panics.Catch(func() error { stop(); return nil }); !errors.As(err, &p) {
			t.Errorf("stop: got %v, want the panic", err)
		}
	})
}
