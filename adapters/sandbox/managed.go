// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

const (
	// visibleTime is how long a consent that was just given may take to
	// work, visiblePause lies between two looks.
	visibleTime  = 20 * time.Second
	visiblePause = 250 * time.Millisecond
)

// assign gives an account a managed tenant. Its administrator consented when
// the operator took the tenant on: what a tenant never did is done here.
func (c *controller) assign(r *http.Request) (any, error) {
	var in struct {
		TenantID  tenant.GUID `json:"tenant_id"`
		AccountID string      `json:"account_id"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.TenantID == "" || in.AccountID == "" {
		return nil, badCall("tenant_id and account_id are missing")
	}
	acc, err := c.Accounts.FindAccount(r.Context(), in.AccountID)
	if err != nil {
		return nil, err
	}
	held, err := c.consentOf(r.Context(), string(in.TenantID))
	if err != nil {
		return nil, err
	}
	if held == "none" {
		return done{}, c.takeOn(r.Context(), acc, in.TenantID)
	}
	_, err = c.Managed.Assign(r.Context(), acc, in.TenantID)
	return done{}, err
}

// takeOn has a tenant's administrator consent and assigns it as soon as the
// platform shows the consent.
func (c *controller) takeOn(ctx context.Context, acc access.Account, id tenant.GUID) error {
	if err := c.consentBeforehand(ctx, string(id)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, visibleTime)
	defer cancel()
	look := time.NewTicker(visiblePause)
	defer look.Stop()
	for {
		_, err := c.Managed.Assign(ctx, acc, id)
		if outcome.Of(err) != outcome.NotReady && !errors.Is(err, fault.AccessDenied) {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (c *controller) withdraw(r *http.Request) (any, error) {
	_, err := c.Managed.Withdraw(r.Context(), tenant.GUID(r.PathValue("id")))
	return done{}, err
}
