// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// presence is a time in which Redis answers. Commands go to it in batches, one
// batch at a time: what is asked while one is under way goes with the next. So
// the more requests there are, the more of them share a round trip.
type presence struct {
	mu          sync.Mutex
	over        bool
	going, next *batch // nil when there is none
}

// batch are commands that go out together.
type batch struct {
	commands []redis.Cmder
	done     chan struct{}
	answered bool // of use once done is closed
}

// join adds a command to the batch that is to go, nil when the presence is over.
// The one who is first has to see to it that the batch goes.
func (p *presence) join(command redis.Cmder) (b *batch, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, false
	}
	if p.going == nil {
		p.going = &batch{commands: []redis.Cmder{command}, done: make(chan struct{})}
		return p.going, true
	}
	if p.next == nil {
		p.next = &batch{done: make(chan struct{})}
	}
	p.next.commands = append(p.next.commands, command)
	return p.next, false
}

// answer lets everybody go on who waits for the batch under way, and returns
// the one that is under way from now on.
func (p *presence) answer() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil
	}
	p.going.answered = true
	close(p.going.done)
	p.going, p.next = p.next, nil
	return p.going
}

// end ends the presence, once, and lets everybody go on without an answer.
func (p *presence) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over = true
	for _, b := range []*batch{p.going, p.next} {
		if b != nil {
			close(b.done)
		}
	}
	return true
}

func (p *presence) lasts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.over
}

func (p *presence) waitsFor(b *batch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.over && p.going == b
}

// ask reports whether Redis did what it was asked for. The caller's going away
// says nothing about Redis. As soon as one gets no answer nobody waits any more.
func (s *shared) ask(command redis.Cmder) bool {
	now := s.presence.Load()
	b, first := now.join(command)
	if b == nil {
		return false
	}
	if first && !s.begin(func() { s.send(now, b) }) {
		now.end()
	}
	<-b.done
	return b.answered
}

// send sends batches until nobody asks any more.
func (s *shared) send(now *presence, b *batch) {
	for ; b != nil; b = now.answer() {
		watch := s.watch(now, b)
		err := s.trip(b.commands...)
		watch.Stop()
		if err != nil {
			s.lose(now, err)
			return
		}
	}
}

// trip brings commands to Redis and their answers back. It ends some time
// after those who wait for it gave up, and so does the connection. A Redis that
// was emptied is given the scripts again.
func (s *shared) trip(commands ...redis.Cmder) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.longest())
	defer cancel()
	err := s.exec(ctx, commands)
	if !redis.HasErrorPrefix(err, noScript) {
		return err
	}
	again := []redis.Cmder{s.command("script", "load", takeText), s.command("script", "load", enterText)}
	for _, command := range commands {
		if redis.HasErrorPrefix(command.Err(), noScript) { // it did nothing
			again = append(again, command)
		}
	}
	return s.exec(ctx, again)
}

const noScript = "NOSCRIPT"

func (s *shared) exec(ctx context.Context, commands []redis.Cmder) error {
	pipe := s.client.Pipeline()
	for _, command := range commands {
		_ = pipe.Process(ctx, command) // it only notes the command
	}
	_, err := pipe.Exec(ctx)
	return err
}

// watch ends the presence when a batch gets no answer in time. The time comes in
// two halves: a process that got no processor for a while sees that the first is
// over before it sees what came long ago, and has the second to see that.
func (s *shared) watch(now *presence, b *batch) *time.Timer {
	return time.AfterFunc(s.patience/2, func() {
		time.AfterFunc(s.patience/2, func() {
			if now.waitsFor(b) {
				s.lose(now, s.slow())
			}
		})
	})
}
