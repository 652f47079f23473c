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

var errCrashed = errors.New("the process is dead")

// crashPoint ends a process before or after the effect of one of its steps. After that, no call of
// the process reaches the store or the platform.
type crashPoint struct {
	mu          sync.Mutex
	stepsLeft   int
	afterEffect bool
	crashed     bool
}

// step executes do, unless the process has crashed. If this is the step of the crash, the process
// crashes before or after do.
func (p *crashPoint) step(do func() error) error {
	p.mu.Lock()
	isCrashStep := p.stepsLeft == 0
	p.stepsLeft--
	crashed := p.crashed
	p.crashed = p.crashed || isCrashStep
	p.mu.Unlock()
	if crashed || isCrashStep && !p.afterEffect {
		return errCrashed
	}
	err := do()
	if isCrashStep {
		return errCrashed
	}
	return err
}

// crashingPlatform is a platform that crashes the process at calls about mailboxes.
type crashingPlatform struct {
	ports.MailPlatform
	*crashPoint
}

func (p crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{p.MailPlatform.For(id), p.crashPoint}
}

// crashingTenant is a tenant of crashingPlatform.
type crashingTenant struct {
	ports.MailTenant
	*crashPoint
}

func (m crashingTenant) Mailbox(ctx context.Context, address string) (found mailbox.Platform, err error) {
	err = m.step(func() error { found, err = m.MailTenant.Mailbox(ctx, address); return err })
	return found, err
}

func (m crashingTenant) CreateMailbox(ctx context.Context, s mailbox.Spec) (found mailbox.Platform, err error) {
	err = m.step(func() error { found, err = m.MailTenant.CreateMailbox(ctx, s); return err })
	return found, err
}

func (m crashingTenant) OpenSignIn(ctx context.Context, id, address string, p secret.Text) error {
	return m.step(func() error { return m.MailTenant.OpenSignIn(ctx, id, address, p) })
}

func (m crashingTenant) OpenSubmission(ctx context.Context, address string) error {
	return m.step(func() error { return m.MailTenant.OpenSubmission(ctx, address) })
}

// crashingStore is a store that crashes the process at writes of mailboxes.
type crashingStore struct {
	ports.MailboxStore
	*crashPoint
}

func (s crashingStore) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	return s.step(func() error { return s.MailboxStore.SaveMailbox(ctx, owner, m) })
}

func (s crashingStore) ConcludeMailboxes(ctx context.Context, owner access.AccountID, rows []mailbox.Mailbox, storedAnswer *ports.StoredAnswer) error {
	return s.step(func() error { return s.MailboxStore.ConcludeMailboxes(ctx, owner, rows, nil) })
}

func (s crashingStore) ReleaseMailbox(ctx context.Context, owner access.AccountID, id string, reservedAt time.Time) error {
	return s.step(func() error { return s.MailboxStore.ReleaseMailbox(ctx, owner, id, reservedAt) })
}

// TestProvisionConvergesAfterACrash crashes the process once at each step of a request. The same
// request to a new process completes the mailboxes. Nothing is created twice.
func TestProvisionConvergesAfterACrash(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		finished := false
		for step := 0; !finished; step++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				point := &crashPoint{stepsLeft: step, afterEffect: afterEffect}
				fx.Platform, fx.Mailboxes = crashingPlatform{fx.fake, point}, crashingStore{fx.store, point}
				_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				if finished = !point.crashed; finished {
					must(t, err)
				}
				fx.Service = fx.service()
				_, err = fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				must(t, err)
				fx.requireComplete(t, 2)
				if creations := fx.fake.Effects("CreateMailbox"); creations != 2 {
					t.Fatalf("%d creations", creations)
				}
			})
			if step > 100 {
				t.Fatal("the request never ends")
			}
		}
	}
}
