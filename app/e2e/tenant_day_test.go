// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// TestTenantDay: an operator sets where a tenant's days begin, which is on
// record; what is so already is not.
func TestTenantDay(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).newTenant(nil).connect()
	day := func(args ...string) operated {
		return operate(t, desk("carol@desk"), append([]string{"tenant", "day", "--tenant", h.guid, "-o", "json"}, args...)...)
	}
	sees(t, day().json(t), object{"tenant_id": h.guid, "account_id": h.id, "time_zone": "UTC"})
	for range 2 {
		sees(t, day("--time-zone", "Europe/Berlin").json(t), object{"tenant_id": h.guid, "account_id": h.id, "time_zone": "Europe/Berlin"})
	}
	sees(t, day().json(t), object{"time_zone": "Europe/Berlin"})
	for _, nonsense := range []string{"Mars/Olympus", "Local", "../UTC"} {
		operate(t, desk("carol@desk"), "tenant", "day", "--tenant", h.guid, "--time-zone", nonsense).fails(t, cli.ExitUsage)
	}
	operate(t, desk("carol@desk"), "tenant", "day", "--tenant", noSuchID, "--time-zone", "UTC").fails(t, cli.ExitNotFound)
	h.told("account.create", "key.create", "tenant.day")
}
