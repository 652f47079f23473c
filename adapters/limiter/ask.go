// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"time"
)

const (
	// round is what it is waited in, late is a round that ends so much later,
	// and as many times the patience is the most, see within.
	round, late, most = 10 * time.Millisecond, 5 * time.Millisecond, 20
	// crowd is how many times the patience a request waits for its turn, and
	// for its answer while others wait for their turn: so many may be what
	// keeps Redis busy, and have to be counted together all the same.
	crowd = 5
)

var errCrowd = errors.New("it answers more slowly than requests come")

// answered is what Redis was asked for.
type answered[T any] struct {
	value T
	err   error
}

// ask reports whether Redis did what it was asked for. The caller's going away
// says nothing about Redis. As soon as one gets no answer nobody waits any more.
func ask[T any](ctx context.Context, s *shared, what func(context.Context) (T, error)) (value T, ok bool) {
	now := s.presence.Load()
	if !now.lasts() {
		return value, false
	}
	// A crowd of our own says nothing about Redis, so the time in which it has
	// to answer begins with one's turn.
	if _, ok := within(crowd*s.patience, s.turn, now.over); !ok {
		s.lose(now, errCrowd)
		return value, false
	}
	answer := make(chan answered[T], 1)
	begun := s.begin(func() {
		defer func() { s.turn <- struct{}{} }()
		answer <- asked(context.WithoutCancel(ctx), s, what)
	})
	if !begun {
		s.turn <- struct{}{}
		return value, false
	}
	got, ok := within(s.patience, answer, now.over)
	if !ok && now.lasts() && len(s.turn) == 0 {
		got, ok = within((crowd-1)*s.patience, answer, now.over)
	}
	switch {
	case !ok:
		s.lose(now, s.slow())
	case got.err != nil:
		s.lose(now, got.err)
		return value, false
	}
	return got.value, ok
}

// asked asks. It ends some time after the one who waits for it gave up, and
// so does the connection.
func asked[T any](ctx context.Context, s *shared, what func(context.Context) (T, error)) answered[T] {
	ctx, cancel := context.WithTimeout(ctx, s.longest())
	defer cancel()
	value, err := what(ctx)
	return answered[T]{value, err}
}

// within waits for what comes until the time or the presence is over. On a
// machine that is busy the one who waits goes on late, and may see that its
// time is over before it sees what came long ago. So the time is counted in
// rounds, and those that end late are not: our own slowness is no outage of
// Redis, and does not make replicas count apart. It has an end all the same.
func within[T any](limit time.Duration, from <-chan T, over <-chan struct{}) (got T, ok bool) {
	select {
	case got = <-from:
		return got, true
	default:
	}
	timer, w := time.NewTimer(round), waiting(limit, time.Now())
	defer timer.Stop()
	for w.left > 0 {
		select {
		case got = <-from:
			return got, true
		case <-over:
			return got, false
		case <-timer.C:
			w.round(time.Now())
			timer.Reset(round)
		}
	}
	select {
	case got = <-from:
		return got, true
	default:
		return got, false
	}
}

// wait counts the rounds that are left.
type wait struct {
	left     time.Duration
	end, due time.Time
}

func waiting(limit time.Duration, now time.Time) *wait {
	return &wait{left: limit / round, end: now.Add(most * limit), due: now.Add(round)}
}

func (w *wait) round(now time.Time) {
	if now.Sub(w.due) < late || now.After(w.end) {
		w.left--
	}
	w.due = now.Add(round)
}
