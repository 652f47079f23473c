// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"testing"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// panickingPlatform is a platform whose calls to create a mailbox panic.
type panickingPlatform struct{ ports.MailPlatform }

func (p panickingPlatform) For(id tenant.GUID) ports.MailTenant {
	return panickingTenant{p.MailPlatform.For(id)}
}

type panickingTenant struct{ ports.MailTenant }

func (panickingTenant) CreateMailbox(context.Context, mailbox.Spec) (mailbox.Platform, error) {
	panic("a value that nothing may log")
}

// TestPanicOfOneMailboxEndsTheRequest checks that a panic in the goroutine of a mailbox continues
// in the goroutine of the request. The repeated request finishes the mailboxes.
func TestPanicOfOneMailboxEndsTheRequest(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = panickingPlatform{fx.fake}
	err := panics.Catch(func() error {
		_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
		return err
	})
	var panicErr *panics.Error
	if !errors.As(err, &panicErr) {
		t.Fatalf("got %v, want the panic", err)
	}
	fx.Platform = fx.fake
	got, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
	must(t, err)
	if got[0].Status != "created" || got[1].Status != "created" {
		t.Errorf("the repeated request: got %v, want two created mailboxes", statuses(got))
	}
	fx.requireComplete(t, 2)
}
