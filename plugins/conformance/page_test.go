// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestThePageForAuthors: docs/plugins.md explains all that a description has,
// and names every operation of a sending platform.
func TestThePageForAuthors(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	names := append(append([]string{}, sendingOperations...), sendingCan[0], "api_key", "workspace_id", "base_url", "auth_hosts", "credential", "egress")
	for _, of := range []any{sdk.Description{}, sdk.Field{}, sdk.Budget{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), `"`+name+`"`) {
			t.Errorf("the page says nothing of %s", name)
		}
	}
}
