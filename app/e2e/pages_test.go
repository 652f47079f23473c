// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestPagesInABrowser has Chromium look at the pages for people. Pictures of
// them are left in TENANTRY_SHOTS, if that is set.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	const folder = "../../.ci/browser"
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal("the browser's packages are not installed: run make test")
	}
	if _, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium")); err != nil {
		t.Fatalf("there is no Chromium (%v): run make test", err)
	}
	c := common(t).newCaller(nil)
	var walks []object
	for range 4 {
		h := c.newTenant(object{"name": "Wherever The Long Name Of A Company Ends Ltd"})
		walks = append(walks, object{"link": c.get("/v1/tenants/connect-url").text("connect_url"), "username": h.admin})
	}
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	task, err := json.Marshal(object{
		"api": c.ready.APIURL, "shots": cmp.Or(os.Getenv("TENANTRY_SHOTS"), t.TempDir()), "walks": walks,
		"codes": []string{"invalid_request", "exchange_bootstrap_not_ready", "provider_timeout"}, "operations": len(d.operations),
	})
	if err != nil {
		t.Fatal(err)
	}
	look := exec.CommandContext(t.Context(), "node", "pages.mjs", string(task))
	look.Dir, look.WaitDelay = folder, 5*time.Second
	if out, err := look.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
