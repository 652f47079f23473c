// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// panickingPlatform is a platform whose lists are empty, so that a sync reads each object by name.
// The calls of one operation panic.
type panickingPlatform struct {
	ports.MailPlatform
	operation string
}

func (p panickingPlatform) For(id tenant.GUID) ports.MailTenant {
	return panickingTenant{laggingTenant{p.MailPlatform.For(id), false}, p.operation}
}

type panickingTenant struct {
	ports.MailTenant
	operation string
}

func (m panickingTenant) panicIn(operation string) {
	if m.operation == operation {
		panic("the operation panics")
	}
}

func (m panickingTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	m.panicIn("Domain")
	return m.MailTenant.Domain(ctx, name)
}

func (m panickingTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	m.panicIn("Mailbox")
	return m.MailTenant.Mailbox(ctx, address)
}

func (m panickingTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	m.panicIn("Records")
	return m.MailTenant.Records(ctx, name)
}

// TestPanicInASyncEndsTheRequest checks that a panic in a goroutine of a sync continues in the
// goroutine of the request, and that the next sync succeeds. A sync makes the calls of these
// operations in separate goroutines, one for each domain or mailbox.
func TestPanicInASyncEndsTheRequest(t *testing.T) {
	for _, operation := range []string{"Domain", "Mailbox", "Records"} {
		t.Run(operation, func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.addPlatformObjects(t)
			fx.sync(t)
			fx.Platform = panickingPlatform{fx.platform, operation}
			err := panics.Catch(func() error {
				_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
				return err
			})
			var caught *panics.Error
			if !errors.As(err, &caught) {
				t.Fatalf("got %v, want the panic", err)
			}
			fx.Platform = fx.platform
			if synced := fx.sync(t); synced.Partial {
				t.Errorf("the next sync returned %+v, want a complete sync", synced)
			}
			if domains, mailboxes := fx.storedObjects(t); len(domains) != 2 || len(mailboxes) != 1 {
				t.Errorf("stored are %+v and %+v, want two domains and one mailbox", domains, mailboxes)
			}
		})
	}
}
