// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/plugins/wire"
)

// TestMissingSettingsMatchOperatorConnection checks that missingSettings applies the rules of
// wiring.Connections.OperatorConnection. Each required secret must be set, and each required
// setting without a default. If all secrets are optional, one of them must be set.
func TestMissingSettingsMatchOperatorConnection(t *testing.T) {
	url, withDefault := wire.Field{Name: "url", Required: true}, wire.Field{Name: "cloud", Required: true, Default: "global"}
	key := wire.Field{Name: "key", Secret: true, Required: true}
	password, certificate := wire.Field{Name: "password", Secret: true}, wire.Field{Name: "certificate", Secret: true}
	for _, tc := range []struct {
		fields     []wire.Field
		configured string // the setting that is set
		want       string
	}{
		{[]wire.Field{url, withDefault}, "", "[url] [TENANTRY_PROVIDERS_M_URL]"},
		{[]wire.Field{url, withDefault}, "url", "[] []"},
		{[]wire.Field{key, password}, "password_file", "[key_file] [TENANTRY_PROVIDERS_M_KEY_FILE]"},
		{[]wire.Field{password, key}, "", "[key_file] [TENANTRY_PROVIDERS_M_KEY_FILE]"},
		{[]wire.Field{password, key}, "key_file", "[] []"},
		{[]wire.Field{password, certificate}, "", "[password_file or certificate_file] [TENANTRY_PROVIDERS_M_PASSWORD_FILE or TENANTRY_PROVIDERS_M_CERTIFICATE_FILE]"},
		{[]wire.Field{password, certificate}, "certificate_file", "[] []"},
	} {
		missing, variables := missingSettings(wire.Description{Name: "m", Fields: tc.fields}, map[string]string{tc.configured: "x"})
		if got := fmt.Sprint(missing, variables); got != tc.want {
			t.Errorf("%v with %q: got %s, want %s", tc.fields, tc.configured, got, tc.want)
		}
	}
}
