// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"time"
)

const (
	// patience is how long a request waits for an answer of Redis.
	patience = 50 * time.Millisecond
	// rounds it is waited in, see patiently.
	rounds = 5
	// crowd is how long a request waits for its turn where the answers come,
	// but more slowly than the requests.
	crowd = 250 * time.Millisecond
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
	if !now.lasts() || !s.itsTurn(now) {
		return value, false
	}
	answer := make(chan answered[T], 1)
	begun := s.begin(func() {
		defer func() { <-s.turn }()
		answer <- asked(context.WithoutCancel(ctx), what)
	})
	if !begun {
		<-s.turn
		return value, false
	}
	got, ok := patiently(answer, now.over)
	switch {
	case !ok:
		s.lose(now, errSlow)
	case got.err != nil:
		s.lose(now, got.err)
		return value, false
	}
	return got.value, ok
}

// itsTurn waits for one's turn. A crowd of our own says nothing about Redis,
// so the time in which it has to answer begins then.
func (s *shared) itsTurn(now *presence) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
	}
	long := time.NewTimer(crowd)
	defer long.Stop()
	select {
	case s.turn <- struct{}{}:
		return true
	case <-now.over:
	case <-long.C:
		s.lose(now, errCrowd)
	}
	return false
}

// asked asks. It ends some time after the one who waits for it gave up, and
// so does the connection.
func asked[T any](ctx context.Context, what func(context.Context) (T, error)) answered[T] {
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	value, err := what(ctx)
	return answered[T]{value, err}
}

// patiently waits for an answer until its patience or the presence is over. A
// machine that is busy lets the one who waits go on late, maybe after the
// answer has come. So the time is waited in rounds, in each of which this
// goroutine came to run: our own slowness is no outage of Redis, and does not
// make replicas count apart.
func patiently[T any](answer <-chan answered[T], over <-chan struct{}) (got answered[T], ok bool) {
	round := time.NewTimer(patience / rounds)
	defer round.Stop()
	for range rounds {
		select {
		case got := <-answer:
			return got, true
		case <-over:
			return got, false
		case <-round.C:
			round.Reset(patience / rounds)
		}
	}
	select {
	case got := <-answer:
		return got, true
	default:
		return got, false
	}
}
