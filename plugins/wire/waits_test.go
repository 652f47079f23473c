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

// waitStore is a store of the host in which the waits do not get shorter.
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

// waitLeft calls Wait and returns the result. On a busy machine the host can answer later than
// waitAnswerTimeout, and Wait returns 0. waitLeft then calls Wait again, unless 0 is wanted.
func waitLeft(t *testing.T, waits ports.Waits, scope string, atLeast, want time.Duration) time.Duration {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		left := waits.Wait(t.Context(), scope, atLeast)
		if left != 0 || want == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// startPlugin serves a plugin in this process, which passes the waits of the host to share.
// startPlugin returns a Process that is connected to the plugin, and a function that ends the
// plugin.
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
	if left := waitLeft(t, waitsOf[0], "tenant", 7*time.Second, 7*time.Second); left != 7*time.Second {
		t.Fatalf("the first process has to wait %s, want 7s", left)
	}
	var wg sync.WaitGroup
	for range 2 * maxWaitRequests { // more requests than the host answers at once
		wg.Go(func() {
			if left := waitLeft(t, waitsOf[1], "tenant", 0, 7*time.Second); left != 7*time.Second {
				t.Errorf("the second process has to wait %s, want the 7s of the first process", left)
			}
			if left := waitsOf[1].Wait(t.Context(), "other tenant", 0); left != 0 {
				t.Errorf("in the scope of a different tenant, the second process has to wait %s, want 0s", left)
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
		if left := waitLeft(t, waits, scope, 24*time.Hour, want); left != want {
			t.Errorf("a wait of 24 h for a scope of %d bytes: got %s, want %s", len(scope), left, want)
		}
	}
	if len(store.waits) != 1 {
		t.Errorf("the store has %d scopes, want only the scope tenant", len(store.waits))
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
