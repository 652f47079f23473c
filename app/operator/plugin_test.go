// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/plugins/wire"
)

func TestPluginAddShowsWhatAPluginReaches(t *testing.T) {
	fields := []wire.Field{
		{Name: "api_url", Default: "https://api.acme.example:8443/v1"},
		{Name: "login_url"},
		{Name: "server_url", Account: true},
		{Name: "auth_hosts", Default: "login.other.example"}, // the plugin does not connect to these hosts
	}
	for _, tc := range []struct{ hosts, want []string }{
		{nil, []string{"any host"}},
		{[]string{"b.acme.example", "*.acme.example"}, []string{"*.acme.example", "b.acme.example"}},
		{[]string{"{api_url}", "api.acme.example"}, []string{"api.acme.example"}},
		{[]string{"{login_url}", "{server_url}"}, []string{"<login_url>", "<server_url of the account>"}},
		{[]string{"{missing_url}"}, []string{"<missing_url>"}},
	} {
		if got := reachesOf(wire.Description{Fields: fields, Hosts: tc.hosts}); !slices.Equal(got, tc.want) {
			t.Errorf("the hosts %v are shown as %v, want %v", tc.hosts, got, tc.want)
		}
	}
}
