// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedClients generates a client in Go and one in TypeScript from the
// document that the binary prints, compiles them, and does the main job with
// each.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	document := filepath.Join(folder, "openapi.json")
	if err := os.WriteFile(document, d.raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("../../.ci/clients/make", document, folder).CombinedOutput(); err != nil {
		t.Fatalf("the clients do not compile: %v\n%s", err, out)
	}
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
