// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
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
	commands []*command
	done     chan struct{}
	answered bool // of use once done is closed
}

// join adds a command to the batch that is to go, nil when the presence is over.
// The one who is first has to see to it that the batch goes.
func (p *presence) join(c *command) (b *batch, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, false
	}
	if p.going == nil {
		p.going = &batch{commands: []*command{c}, done: make(chan struct{})}
		return p.going, true
	}
	if p.next == nil {
		p.next = &batch{done: make(chan struct{})}
	}
	p.next.commands = append(p.next.commands, c)
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
func (s *shared) ask(c *command) bool {
	now := s.presence.Load()
	b, first := now.join(c)
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

// trip sends commands to Redis and reads their answers. It ends some time after
// those who wait for it gave up, and so does the connection. A Redis that lost the
// scripts gets them again.
func (s *shared) trip(commands ...*command) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.longest())
	defer cancel()
	err := s.exec(ctx, commands)
	if !noScript(err) {
		return err
	}
	again := []*command{
		{name: "SCRIPT", args: []any{"LOAD", takeText}}, {name: "SCRIPT", args: []any{"LOAD", enterText}},
	}
	for _, c := range commands {
		if noScript(c.err) { // it did nothing
			again = append(again, c)
		}
	}
	return s.exec(ctx, again)
}

func noScript(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOSCRIPT")
}

// exec sends commands in one pipeline. It returns the error of the connection, or
// else the first one of a command.
func (s *shared) exec(ctx context.Context, commands []*command) (first error) {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, c := range commands {
		if err := conn.Send(c.name, c.args...); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, c := range commands {
		c.reply, c.err = conn.Receive()
		if err := conn.Err(); err != nil {
			return err
		}
		if first == nil {
			first = c.err
		}
	}
	return first
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
