// SPDX-License-Identifier: Apache-2.0

package tenant

import "github.com/tenantry/tenantry/core/fault"

// Reachable refuses what needs the mail platform while the consent is known to
// be gone: access_denied. Every operation that may call the platform asks it
// once the request itself is found good, and before anything that the tenant's
// state decides, as no state can be put right without a consent. Only a sync
// goes ahead: it is how a consent that works again is noticed, beside a new one.
func (t Tenant) Reachable() error {
	if t.Consent == ConsentRevoked {
		return fault.AccessDenied.With("the consent of the tenant's administrator is gone; connect the tenant again")
	}
	return nil
}
