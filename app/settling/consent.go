// SPDX-License-Identifier: Apache-2.0

package settling

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Consent notices that a tenant's consent is gone.
type Consent struct {
	Tenants  ports.Tenants
	Platform ports.MailPlatform
}

// Notice looks into an error of a provider call and returns it unchanged. When
// it is access_denied, the platform is asked for the tenant's profile: refused
// too, the consent is gone and is stored so, for readiness to show; else one of
// the mail server's grants is missing, which a sync finds out and mends.
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
