// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// waitStore is a store whose waits never end.
type waitStore struct {
	mu    sync.Mutex
	waits map[string]time.Duration
}

func (s *waitStore) Wait(_ context.Context, scope string, atLeast time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[scope] = max(s.waits[scope], atLeast)
	return s.waits[scope]
}

// startPlugin serves a plugin in this process. It returns a Process that is connected to the
// plugin, and a function that ends the plugin.
func startPlugin(t *testing.T, share func(ports.Waits)) (p *Process, end func()) {
	t.Helper()
	server := newServer(slog.New(slog.DiscardHandler), Description{})
	proto.RegisterPluginServer(server, &pluginServer{shareWaits: share})
	conn := connectInMemory(t, server)
	return &Process{conn: conn}, server.Stop
}

// TestProcessesShareWaits checks that two processes of a plugin share their waits through the store
// of the host.
func TestProcessesShareWaits(t *testing.T) {
	store := &waitStore{waits: map[string]time.Duration{}}
	var waitsOf []ports.Waits
	for range 2 {
		p, _ := startPlugin(t, func(w ports.Waits) { waitsOf = append(waitsOf, w) })
		if err := p.ShareWaits(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	if left := waitsOf[0].Wait(t.Context(), "tenant", 7*time.Second); left != 7*time.Second {
		t.Fatalf("got %s, want 7s", left)
	}
	var wg sync.WaitGroup
	for range 2 * maxWaitRequests {
		wg.Go(func() {
			if left := waitsOf[1].Wait(t.Context(), "tenant", 0); left != 7*time.Second {
				t.Errorf("the other process has to wait %s, want 7s", left)
			}
			if left := waitsOf[1].Wait(t.Context(), "other tenant", 0); left != 0 {
				t.Errorf("another tenant has to wait %s, want 0s", left)
			}
		})
	}
	wg.Wait()
}

func TestWaitsOfAPluginAreLimited(t *testing.T) {
	store := &waitStore{waits: map[string]time.Duration{}}
	var waits ports.Waits
	p, _ := startPlugin(t, func(w ports.Waits) { waits = w })
	if err := p.ShareWaits(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string]time.Duration{"tenant": maxSharedWait, strings.Repeat("x", maxScopeBytes+1): 0} {
		if left := waits.Wait(t.Context(), scope, 24*time.Hour); left != want {
			t.Errorf("got %s, want %s", left, want)
		}
	}
	if len(store.waits) != 1 {
		t.Errorf("the store has %d scopes, want 1", len(store.waits))
	}
}

func TestAPluginWithoutWaitsStarts(t *testing.T) {
	p, _ := startPlugin(t, nil)
	if err := p.ShareWaits(t.Context(), &waitStore{}); err != nil {
		t.Fatal(err)
	}
}

func TestWaitsEndWithTheStream(t *testing.T) {
	var waits ports.Waits
	p, end := startPlugin(t, func(w ports.Waits) { waits = w })
	if err := p.ShareWaits(t.Context(), &waitStore{waits: map[string]time.Duration{}}); err != nil {
		t.Fatal(err)
	}
	end()
	if left := waits.Wait(t.Context(), "tenant", time.Second); left != 0 {
		t.Fatalf("got %s without a host, want 0s", left)
	}
}
