// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// callLimit bounds one provider call, readLimit one read of the DNS, and storeLimit one write
	// to the store.
	callLimit  = 20 * time.Second
	readLimit  = 10 * time.Second
	storeLimit = 10 * time.Second
)

// Call makes one provider call with a timeout and returns its error. If the context ends before the
// answer, the outcome is unknown.
func Call(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := step(ctx)
	if outcome.Of(err) == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
	}
	return err
}

// Detach returns a context for work that has begun to change the platform. The context survives the
// caller's cancellation, so that the work is finished and stored. It ends at the limit, or at the
// caller's deadline if that is earlier.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// Store calls save with its own timeout, even when ctx has ended, and returns its error.
func Store(ctx context.Context, save func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	return save(ctx)
}

// Consent detects that a tenant's consent is gone.
type Consent struct {
	Tenants  ports.Tenants
	Platform ports.MailPlatform
}

// Notice returns err unchanged, joined with the store's error if storing fails. For access_denied
// it reads the tenant's profile at the platform. If that is refused too, the consent is gone, and
// Notice stores this for readiness to show. Otherwise a grant of the mail server is missing, which
// the next sync restores.
func (c Consent) Notice(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	if !errors.Is(err, fault.AccessDenied) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	denied := Call(ctx, func(ctx context.Context) error {
		_, err := c.Platform.For(id).Profile(ctx)
		return err
	})
	if !errors.Is(denied, fault.AccessDenied) {
		return err
	}
	saved := Store(ctx, func(ctx context.Context) error {
		t, err := c.Tenants.Tenant(ctx, owner, id)
		if err != nil || t.Consent == tenant.ConsentRevoked {
			return err
		}
		t.Consent = tenant.ConsentRevoked
		return c.Tenants.SaveTenant(ctx, owner, t)
	})
	if saved != nil && !errors.Is(saved, fault.TenantNotFound) {
		return errors.Join(err, saved)
	}
	return err
}
