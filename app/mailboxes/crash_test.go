// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errDead = errors.New("the process is dead")

// crash ends a process before or after the effect of one of its steps. After that, no call of the
// process reaches the store or the platform.
type crash struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

func (l *crash) step(do func() error) error {
	l.mu.Lock()
	last := l.left == 0
	l.left--
	dead := l.dead
	l.dead = l.dead || last
	l.mu.Unlock()
	if dead || last && !l.after {
		return errDead
	}
	err := do()
	if last {
		return errDead
	}
	return err
}

type crashingPlatform struct {
	ports.MailPlatform
	*crash
}

func (p crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{p.MailPlatform.For(id), p.crash}
}

type crashingTenant struct {
	ports.MailTenant
	*crash
}

func (m crashingTenant) Mailbox(ctx context.Context, address string) (out mailbox.Platform, err error) {
	err = m.step(func() error { out, err = m.MailTenant.Mailbox(ctx, address); return err })
	return out, err
}

func (m crashingTenant) CreateMailbox(ctx context.Context, s mailbox.Spec) (out mailbox.Platform, err error) {
	err = m.step(func() error { out, err = m.MailTenant.CreateMailbox(ctx, s); return err })
	return out, err
}

func (m crashingTenant) OpenSignIn(ctx context.Context, id, address string, p secret.Text) error {
	return m.step(func() error { return m.MailTenant.OpenSignIn(ctx, id, address, p) })
}

func (m crashingTenant) OpenSubmission(ctx context.Context, address string) error {
	return m.step(func() error { return m.MailTenant.OpenSubmission(ctx, address) })
}

type crashingStore struct {
	ports.MailboxStore
	*crash
}

func (s crashingStore) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	return s.step(func() error { return s.MailboxStore.SaveMailbox(ctx, owner, m) })
}

func (s crashingStore) ConcludeMailboxes(ctx context.Context, owner access.AccountID, all []mailbox.Mailbox, completion *ports.Completion) error {
	return s.step(func() error { return s.MailboxStore.ConcludeMailboxes(ctx, owner, all, nil) })
}

func (s crashingStore) ReleaseMailbox(ctx context.Context, owner access.AccountID, id string, reservedAt time.Time) error {
	return s.step(func() error { return s.MailboxStore.ReleaseMailbox(ctx, owner, id, reservedAt) })
}

// TestProvisionConvergesAfterACrash crashes the process once at every step of a request. The
// same request to a new process converges, and nothing is created twice.
func TestProvisionConvergesAfterACrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		finished := false
		for steps := 0; !finished; steps++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				fx := newFixture(t)
				l := &crash{left: steps, after: after}
				fx.Platform, fx.Mailboxes = crashingPlatform{fx.fake, l}, crashingStore{fx.store, l}
				_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				if finished = !l.dead; finished {
					must(t, err)
				}
				fx.Service = fx.service()
				_, err = fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				must(t, err)
				fx.requireComplete(t, 2)
				if made := fx.fake.Effects("CreateMailbox"); made != 2 {
					t.Fatalf("%d creations", made)
				}
			})
			if steps > 100 {
				t.Fatal("the request never ends")
			}
		}
	}
}
