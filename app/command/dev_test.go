// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// TestTheShellKeepsItsTenant: a sandbox that is started again lists other
// tenants that wait, and what the shell was told of first stays.
func TestTheShellKeepsItsTenant(t *testing.T) {
	folder := t.TempDir()
	told := func(tenants ...string) string {
		t.Helper()
		r := sandbox.Ready{APIKey: "key of " + strings.Join(tenants, " ")}
		for _, id := range tenants {
			r.Tenants = append(r.Tenants, sandbox.Tenant{TenantID: id})
		}
		if err := writeEnv(folder, r); err != nil {
			t.Fatal(err)
		}
		env, err := os.ReadFile(filepath.Join(folder, "env"))
		if err != nil || !strings.Contains(string(env), "TENANTRY_KEY="+r.APIKey+"\n") {
			t.Fatalf("%s, %v", env, err)
		}
		_, tenant, _ := strings.Cut(string(env), "TENANTRY_TENANT=")
		return strings.TrimSpace(tenant)
	}
	for _, step := range []struct {
		waiting []string
		want    string
	}{{nil, ""}, {[]string{"one", "two"}, "one"}, {[]string{"two"}, "one"}, {nil, "one"}} {
		if got := told(step.waiting...); got != step.want {
			t.Fatalf("with %q waiting the shell is told of %q, want %q", step.waiting, got, step.want)
		}
	}
}
