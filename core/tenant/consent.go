// SPDX-License-Identifier: Apache-2.0

package tenant

import "github.com/tenantry/tenantry/core/fault"

// Reachable fails with access_denied if the tenant's consent is revoked. Operations that may call
// the platform check it after validating the request and before the tenant's state. Only a sync
// does not, because it detects that a consent works again.
func (t Tenant) Reachable() error {
	if t.Consent == ConsentRevoked {
		return fault.AccessDenied.With("the consent of the tenant's administrator is gone; connect the tenant again")
	}
	return nil
}
