// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"sync"
)

// book holds what the resolvers said during one read, so that no question is
// put twice.
type book struct {
	reader *Reader
	mu     sync.Mutex
	pages  map[question]*page
}

type page struct {
	done chan struct{}
	view view
	err  error
}

func (b *book) ask(ctx context.Context, q question) (view, error) {
	b.mu.Lock()
	p, asked := b.pages[q]
	if !asked {
		p = &page{done: make(chan struct{})}
		b.pages[q] = p
	}
	b.mu.Unlock()
	if asked {
		<-p.done // whoever asks has the same deadline
		return p.view, p.err
	}
	defer close(p.done)
	m, err := b.reader.recurse(ctx, q)
	if err == nil {
		p.view, err = look(m, q)
	}
	p.err = err
	return p.view, p.err
}
