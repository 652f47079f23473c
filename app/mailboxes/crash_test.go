// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// crashingPlatform is a platform on which the process can crash at each call of Mailbox,
// CreateMailbox, OpenSignIn and OpenSubmission.
type crashingPlatform struct {
	ports.MailPlatform

	process *fake.CrashingProcess
}

func (p crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{p.MailPlatform.For(id), p.process}
}

type crashingTenant struct {
	ports.MailTenant

	process *fake.CrashingProcess
}

func (m crashingTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	return fake.StepWithResult(ctx, m.process, func() (mailbox.Platform, error) { return m.MailTenant.Mailbox(ctx, address) })
}

func (m crashingTenant) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	return fake.StepWithResult(ctx, m.process, func() (mailbox.Platform, error) { return m.MailTenant.CreateMailbox(ctx, s) })
}

func (m crashingTenant) OpenSignIn(ctx context.Context, id, address string, p secret.Text) error {
	return m.process.Step(ctx, func() error { return m.MailTenant.OpenSignIn(ctx, id, address, p) })
}

func (m crashingTenant) OpenSubmission(ctx context.Context, address string) error {
	return m.process.Step(ctx, func() error { return m.MailTenant.OpenSubmission(ctx, address) })
}

// crashingStore is a store on which the process can crash at each call of SaveMailbox,
// ConcludeMailboxes and ReleaseMailbox.
type crashingStore struct {
	ports.MailboxStore

	process *fake.CrashingProcess
}

func (s crashingStore) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	return s.process.Step(ctx, func() error { return s.MailboxStore.SaveMailbox(ctx, owner, m) })
}

func (s crashingStore) ConcludeMailboxes(ctx context.Context, owner access.AccountID, rows []mailbox.Mailbox, storedAnswer *ports.StoredAnswer) error {
	return s.process.Step(ctx, func() error { return s.MailboxStore.ConcludeMailboxes(ctx, owner, rows, storedAnswer) })
}

func (s crashingStore) ReleaseMailbox(ctx context.Context, owner access.AccountID, id string, reservedAt time.Time) error {
	return s.process.Step(ctx, func() error { return s.MailboxStore.ReleaseMailbox(ctx, owner, id, reservedAt) })
}

// TestProvisionConvergesAfterACrash crashes the process once at each call of crashingPlatform and
// crashingStore in a request. The same request to a new process completes the mailboxes. No mailbox
// is created twice.
func TestProvisionConvergesAfterACrash(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		finished := false
		for step := 0; !finished; step++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				process := fake.NewCrashingProcess(step, afterEffect)
				fx.Platform, fx.Mailboxes = crashingPlatform{fx.fake, process}, crashingStore{fx.store, process}
				_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				if finished = !process.Dead(); finished {
					must(t, err)
					if step == 0 {
						t.Fatal("the process cannot crash in the request, want a crash at each call")
					}
				}
				fx.Service = fx.service()
				_, err = fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				must(t, err)
				fx.requireComplete(t, 2)
				if creations := fx.fake.Effects("CreateMailbox"); creations != 2 {
					t.Fatalf("%d mailboxes were created, want 2", creations)
				}
			})
			if step > 100 {
				t.Fatal("the request has more than 100 steps, want an end")
			}
		}
	}
}
