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

	"github.com/redis/go-redis/v9"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestTroubleWithRedis: whatever happens to it, nobody waits for long, nobody
// gets more than one process gives, the log has one line for each change, and
// all is as before when it is back.
func TestTroubleWithRedis(t *testing.T) {
	for _, tt := range []struct {
		name          string
		trouble, mend func(*testserver.Redis, *testing.T)
		left          int64 // for a new process, at most
	}{
		{"it is gone, and comes back empty", func(r *testserver.Redis, _ *testing.T) { r.Stop() }, func(r *testserver.Redis, t *testing.T) { r.Start(t) }, 12},
		{"it hangs", func(r *testserver.Redis, t *testing.T) { r.Freeze(t) }, func(r *testserver.Redis, t *testing.T) { r.Thaw(t) }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, log := testserver.NewRedis(t), &lines{}
			o := limiter.Options{URL: server.URL, Patience: 300 * time.Millisecond, Log: slog.New(slog.NewJSONHandler(log, nil))}
			one, other := open(t, o), open(t, limiter.Options{URL: server.URL, Patience: o.Patience})
			if n := allowed(10, bucket(12), one); n != 10 {
				t.Fatalf("%d passed", n)
			}
			tt.trouble(server, t)
			began := time.Now()
			if n := allowed(50, bucket(12), one); n != 2 {
				t.Errorf("%d passed, where 2 were left for the process", n)
			}
			if took := time.Since(began); took > 8*time.Second { // they wait once, all together
				t.Errorf("50 requests at once took %s", took)
			}
			if s := one.State(); !s.Shared || !s.Fallback || s.Fallbacks != 1 {
				t.Errorf("state %+v", s)
			}
			if n := allowed(50, bucket(12), other); n != 12 {
				t.Errorf("%d passed in the other process, which counts by itself", n)
			}
			began = time.Now()
			for range 1000 {
				one.Take(t.Context(), bucket(12))
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("1000 requests after one another took %s, where none waits", took)
			}
			tt.mend(server, t)
			eventually(t, "it counts in Redis again", func() bool { return !one.State().Fallback && !other.State().Fallback })
			if n := allowed(50, bucket(12), one); n != 0 {
				t.Errorf("%d more passed in the process, which knows of its 12", n)
			}
			// What it was asked while it hung it does later, and counts.
			if n := allowed(50, bucket(12), open(t, o)); n > tt.left {
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

// TestARedisThatAnswersButDoesNotCount is as one that is away, for as long as
// that is so.
func TestARedisThatAnswersButDoesNotCount(t *testing.T) {
	server, log := testserver.NewRedis(t), &lines{}
	client := clientOf(t, server)
	l := open(t, limiter.Options{URL: server.URL, Patience: 10 * time.Second, Log: slog.New(slog.NewJSONHandler(log, nil))})
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil { // it is full
		t.Fatal(err)
	}
	if n := allowed(50, bucket(12), l); n != 12 {
		t.Errorf("%d passed", n)
	}
	<-time.After(1200 * time.Millisecond) // it is looked for twice
	if s := l.State(); !s.Fallback || s.Fallbacks != 1 {
		t.Errorf("state %+v\n%s", s, log)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestASlowRedis: one that answers later than a request may wait is away.
func TestASlowRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	address, slow := delayed(t, server)
	l := open(t, limiter.Options{URL: address, Patience: 200 * time.Millisecond})
	if n := allowed(10, bucket(12), l); n != 10 || l.State().Fallback {
		t.Fatalf("%d passed, %+v", n, l.State())
	}
	slow.Store(int64(1500 * time.Millisecond))
	if n := allowed(50, bucket(12), l); n != 2 {
		t.Errorf("%d passed, where 2 were left", n)
	}
	<-time.After(1500 * time.Millisecond) // it is looked for
	if s := l.State(); !s.Fallback || s.Fallbacks != 1 {
		t.Errorf("state %+v", s)
	}
	slow.Store(0)
	eventually(t, "it counts in Redis again", func() bool { return !l.State().Fallback })
}

// TestTheClockOfRedis: one that jumps neither blocks anybody for longer than a
// window nor gives a process more than its limit.
func TestTheClockOfRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	client, b := clientOf(t, server), bucket(2)
	l := open(t, counting(server))
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
		if err := client.RPush(t.Context(), "tenantry:bucket:"+name, tt.counted...).Err(); err != nil {
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
	if err := client.Del(t.Context(), "tenantry:bucket:"+b.Key).Err(); err != nil { // as a clock far ahead does
		t.Fatal(err)
	}
	if n := allowed(10, b, l); n != 0 {
		t.Errorf("%d more passed", n)
	}
}

func clientOf(t *testing.T, server *testserver.Redis) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestAnEmptiedRedis: it answers, so nothing is said; a process knows what it
// has let through itself, so each gives its own limit at most.
func TestAnEmptiedRedis(t *testing.T) {
	server := testserver.NewRedis(t)
	one := open(t, counting(server))
	if n := allowed(20, bucket(12), one); n != 12 {
		t.Fatalf("%d passed", n)
	}
	server.Empty(t)
	if n := allowed(20, bucket(12), one); n != 0 {
		t.Errorf("%d more passed", n)
	}
	if n := allowed(20, bucket(12), open(t, counting(server))); n != 12 {
		t.Errorf("%d passed elsewhere: what was refused was not given back", n)
	}
	if s := one.State(); s.Fallback || s.Fallbacks != 0 {
		t.Errorf("state %+v", s)
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
