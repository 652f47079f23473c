// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/tenant"
)

// readLicenses keeps what was read before where the platform does not answer:
// nothing that a sync is for depends on it. The call's own metric and line in
// the log tell, and the headroom how old it is. Only the store's own trouble
// is an error.
func (r *run) readLicenses(ctx context.Context) error {
	var have tenant.Licenses
	err := r.ask(ctx, func(ctx context.Context) (err error) {
		have, err = r.at.EmailLicenses(ctx)
		return err
	})
	if err != nil {
		return nil //lint:ignore nilerr the comment above says why
	}
	return settling.Store(ctx, func(ctx context.Context) error {
		return r.Room.SaveLicenses(ctx, r.owner, r.t.GUID, have, r.Now())
	})
}
