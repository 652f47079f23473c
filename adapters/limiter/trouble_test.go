// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"bytes"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestTroubleWithRedis: while Redis does not answer, requests do not wait for
// it one after the other, and a process lets through its own limit at most. The
// log has one line for each change. Replicas count together when it is back.
func TestTroubleWithRedis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		trouble, mend func(*testserver.Redis, *testing.T)
		patience      time.Duration
		left          int64 // for a new process, at most
	}{
		{"it is gone, and comes back empty", func(r *testserver.Redis, _ *testing.T) { r.Stop() }, func(r *testserver.Redis, t *testing.T) { r.Start(t) }, hang, 12},
		{"it hangs", func(r *testserver.Redis, t *testing.T) { r.Freeze(t) }, func(r *testserver.Redis, t *testing.T) { r.Thaw(t) }, 2 * time.Second, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, log := testserver.NewRedis(t), &lines{}
			o := limiter.Options{URL: server.URL, Patience: tt.patience, Log: slog.New(slog.NewJSONHandler(log, nil))}
			one, other := sharing(t, o), sharing(t, limiter.Options{URL: server.URL, Patience: o.Patience})
			if n := allowed(10, bucket(12), one); n != 10 {
				t.Fatalf("%d passed", n)
			}
			tt.trouble(server, t)
			began := time.Now()
			var both sync.WaitGroup
			both.Go(func() {
				if n := allowed(50, bucket(12), one); n != 2 {
					t.Errorf("%d passed, where 2 were left for the process", n)
				}
			})
			both.Go(func() {
				if n := allowed(50, bucket(12), other); n != 12 {
					t.Errorf("%d passed in the other process, which counts by itself", n)
				}
			})
			both.Wait()
			if s := one.State(); !s.Shared || !s.Fallback || s.Fallbacks != 1 {
				t.Errorf("state %+v", s)
			}
			for range 1000 {
				one.Take(t.Context(), bucket(12))
			}
			// The requests wait once, all together: 50 that wait one after the
			// other take longer, and so do 1000.
			if took := time.Since(began); took > 50*tt.patience {
				t.Errorf("the requests took %s, want less than 50 times %s", took, tt.patience)
			}
			tt.mend(server, t)
			eventually(t, "it counts in Redis again", func() bool { return !one.State().Fallback && !other.State().Fallback })
			if n := allowed(50, bucket(12), one); n != 0 {
				t.Errorf("%d more passed in the process, which knows of its 12", n)
			}
			// What it was asked while it hung it does later, and counts.
			if n := allowed(50, bucket(12), sharing(t, o)); n > tt.left {
				t.Errorf("%d passed in a new process, where %d were left", n, tt.left)
			}
			if at, err := url.Parse(server.URL); err != nil || strings.Contains(log.String(), at.User.String()[1:]) {
				t.Errorf("the password is in the log (%v):\n%s", err, log)
			}
			if away, back := log.count("Redis does not answer"), log.count("Redis answers"); away != 1 || back != 1 {
				t.Errorf("%d lines for its going, %d for its return:\n%s", away, back, log)
			}
		})
	}
}

// TestARedisThatAnswersButDoesNotCount: a Redis that is full does not count, so
// the process counts by itself until Redis has room.
func TestARedisThatAnswersButDoesNotCount(t *testing.T) {
	t.Parallel()
	server, log := testserver.NewRedis(t), &lines{}
	client := clientOf(t, server)
	l := sharing(t, limiter.Options{URL: server.URL, Patience: hang, Log: slog.New(slog.NewJSONHandler(log, nil))})
	if _, err := redis.DoContext(client, t.Context(), "CONFIG", "SET", "maxmemory", "1"); err != nil { // it is full
		t.Fatal(err)
	}
	if n := allowed(50, bucket(12), l); n != 12 {
		t.Errorf("%d passed", n)
	}
	<-time.After(1200 * time.Millisecond) // it is looked for twice
	if s := l.State(); !s.Fallback || s.Fallbacks != 1 {
		t.Errorf("state %+v\n%s", s, log)
	}
	if _, err := redis.DoContext(client, t.Context(), "CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestASlowRedis: a Redis that answers later than a request may wait is not
// used, also when it answers the next probe as late.
func TestASlowRedis(t *testing.T) {
	t.Parallel()
	server := testserver.NewRedis(t)
	proxy := delayed(t, server)
	l := sharing(t, limiter.Options{URL: proxy.url, Patience: time.Second})
	if n := allowed(10, bucket(12), l); n != 10 {
		t.Fatalf("%d passed", n)
	}
	before := l.State().Fallbacks
	proxy.delay.Store(int64(1500 * time.Millisecond))
	if n := allowed(50, bucket(12), l); n != 2 {
		t.Errorf("%d passed, where 2 were left", n)
	}
	eventually(t, "a request and a probe were answered late", func() bool { return proxy.late.Load() >= 2 })
	if s := l.State(); !s.Fallback || s.Fallbacks != before+1 {
		t.Errorf("state %+v, %d fallbacks before", s, before)
	}
	proxy.delay.Store(0)
	eventually(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestTheClockOfRedis: one that jumps neither blocks anybody for longer than a
// window nor gives a process more than its limit.
func TestTheClockOfRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	client, b := clientOf(t, server), bucket(2)
	l := sharing(t, counting(server))
	past := func(d time.Duration) any { return time.Now().Add(-d).UnixMicro() }
	for name, tt := range map[string]struct {
		counted []any
		allowed bool
	}{
		"back by less than a window": {[]any{past(-b.Window / 2), past(-b.Window / 2)}, false},
		"back by more":               {[]any{past(-3 * b.Window), past(-3 * b.Window)}, true},
		"on by more than a window":   {[]any{past(2 * b.Window), past(2 * b.Window)}, true},
	} {
		b.Key = name
		if _, err := redis.DoContext(client, t.Context(), "RPUSH", append([]any{"tenantry:bucket:" + name}, tt.counted...)...); err != nil {
			t.Fatal(err)
		}
		v, _ := l.Take(t.Context(), b)
		if v.Allowed != tt.allowed || v.ResetIn > b.Window || v.RetryIn > b.Window {
			t.Errorf("%s: %+v", name, v)
		}
	}
	b.Key = "of its own"
	if n := allowed(10, b, l); n != 2 {
		t.Fatalf("%d passed", n)
	}
	if _, err := redis.DoContext(client, t.Context(), "DEL", "tenantry:bucket:"+b.Key); err != nil { // as a clock far ahead does
		t.Fatal(err)
	}
	if n := allowed(10, b, l); n != 0 {
		t.Errorf("%d more passed", n)
	}
}

func clientOf(t *testing.T, server *testserver.Redis) redis.Conn {
	t.Helper()
	conn, err := redis.DialURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestAnEmptiedRedis: it answers, so nothing is said; a process knows what it
// has let through itself, so each gives its own limit at most.
func TestAnEmptiedRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	one := sharing(t, counting(server))
	before := one.State().Fallbacks
	if n := allowed(20, bucket(12), one); n != 12 {
		t.Fatalf("%d passed", n)
	}
	server.Empty(t)
	if n := allowed(20, bucket(12), one); n != 0 {
		t.Errorf("%d more passed", n)
	}
	if n := allowed(20, bucket(12), sharing(t, counting(server))); n != 12 {
		t.Errorf("%d passed elsewhere: what was refused was not given back", n)
	}
	if s := one.State(); s.Fallback || s.Fallbacks != before {
		t.Errorf("state %+v, %d fallbacks before", s, before)
	}
}

// TestAStartWithoutRedis: it is waited for, and then counted in.
func TestAStartWithoutRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	server.Stop()
	l := open(t, limiter.Options{URL: server.URL})
	if s := l.State(); !s.Fallback {
		t.Fatalf("state %+v", s)
	}
	server.Start(t)
	eventually(t, "it counts in Redis", func() bool { return !l.State().Fallback })
}

// lines is a log to look into.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }
