// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestGeneratedClients does the main job with a Go and a TypeScript client, which
// `make test-programs` generates from docs/openapi.yaml and compiles. `make check`
// proves that the document is that of the binary.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	folder := filepath.Dir(testserver.Program(t, "clients/smoke"))
	for name, args := range map[string][]string{"go": {"./smoke"}, "typescript": {"node", "smoke.js"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := common(t).newCaller(nil)
			h := c.newTenant(nil)
			zone := c.newZone()
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "TENANTRY_URL="+c.ready.APIURL, "TENANTRY_KEY="+c.key,
				"TENANTRY_CONTROL="+c.ready.ControlURL, "TENANTRY_TENANT="+h.guid, "TENANTRY_DOMAIN="+zone)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			sees(t, h.get(h.path("")).object, object{"domain_count": 1, "mailbox_count": 1, "readiness.domains_verified": 1})
		})
	}
}
