// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/integration"
)

func TestSameAddress(t *testing.T) {
	for _, tt := range []struct {
		a, b      string
		sameState bool
	}{
		{"anna@a.test", "Anna@A.TEST", true},
		{"anna@a.test", "joanna@a.test", false},
		{"anna@a.test", "anna@a.test.evil.test", false},
		{"anna@a.test", "anna@a.test ", false},
		{"nik@a.test", "ni\u212a@a.test", false}, // the sign for kelvin, which Unicode takes for a k
		{"", "", true},
	} {
		if got := integration.SameAddress(tt.a, tt.b); got != tt.sameState {
			t.Errorf("%q and %q: %v", tt.a, tt.b, got)
		}
	}
}
