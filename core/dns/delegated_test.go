// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

func TestServesWorld(t *testing.T) {
	two := []string{"ns1.a.test", "ns2.a.test"}
	for _, tt := range []struct {
		name       string
		zone       dns.Zone
		delegation []string
		want       bool
	}{
		{"the same", dns.Zone{NameServers: two}, two, true},
		{"in another order and spelling, one twice", dns.Zone{NameServers: two}, []string{"NS2.A.test.", "ns1.a.test", "ns2.a.test"}, true},
		{"one less in the delegation", dns.Zone{NameServers: two}, two[:1], false},
		{"one more in the delegation", dns.Zone{NameServers: two[:1]}, two, false},
		{"others", dns.Zone{NameServers: two}, []string{"ns1.b.test", "ns2.b.test"}, false},
		{"idle", dns.Zone{NameServers: two, Idle: "moved"}, two, false},
		{"a delegation that is not known", dns.Zone{}, nil, false},
	} {
		if got := tt.zone.ServesWorld(tt.delegation); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
