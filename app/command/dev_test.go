// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// TestTheShellKeepsItsTenant checks that the file env keeps its first tenant when a restarted sandbox
// lists other tenants.
func TestTheShellKeepsItsTenant(t *testing.T) {
	folder := t.TempDir()
	writtenTenant := func(tenants ...string) string {
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
		if got := writtenTenant(step.waiting...); got != step.want {
			t.Fatalf("with the tenants %q the file env names %q, want %q", step.waiting, got, step.want)
		}
	}
}
