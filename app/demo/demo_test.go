// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// TestDemoNeedsATenant checks that the demo names the setting to change if the sandbox has no
// tenant, because its mail platform has no simulator.
func TestDemoNeedsATenant(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer api.Close()
	err := Run(t.Context(), io.Discard, sandbox.Ready{APIURL: api.URL, ControlURL: api.URL, Tenants: []sandbox.Tenant{}})
	if err == nil || !strings.Contains(err.Error(), "mail_platform") {
		t.Fatalf("the error of a sandbox without tenants is %v, want one that names mail_platform", err)
	}
}
