// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPulse: those who ask while a database hangs wait for one look, which is
// short and no asker's own; later somebody looks again.
func TestPulse(t *testing.T) {
	away, looks, answer := errors.New("away"), 0, make(chan error)
	p := &pulse{ping: func(ctx context.Context) error {
		looks++
		if end, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded || time.Until(end) > databaseTime {
			t.Errorf("looks until %s, %v", end, ctx.Err())
		}
		return <-answer
	}}
	left, leave := context.WithCancel(t.Context())
	leave()
	heard := make(chan error)
	for range 5 {
		go func() { heard <- p.feel(left) }()
	}
	answer <- away
	for range 5 {
		if err := <-heard; !errors.Is(err, away) {
			t.Errorf("heard %v", err)
		}
	}
	if looks != 1 {
		t.Errorf("%d looks", looks)
	}
	p.seen = p.seen.Add(-freshPulse)
	go func() { answer <- nil }()
	if err := p.feel(t.Context()); err != nil || looks != 2 {
		t.Errorf("then %v after %d looks", err, looks)
	}
}
