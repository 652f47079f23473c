// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestModuleVersionReplacesOnlyADevVersion(t *testing.T) {
	for _, tt := range []struct{ linked, module, want string }{
		{"0.1.0-dev", "(devel)", "0.1.0-dev"},
		{"0.1.0-dev", "", "0.1.0-dev"},
		{"0.1.0-dev", "v0.0.0-20261124001500-914cc6701234+dirty", "0.1.0-dev"},
		{"0.1.0-dev", "v1.2.3", "1.2.3"}, // by go install
		{"1.2.4", "v1.2.3", "1.2.4"},
	} {
		if got := versionOf(tt.linked, tt.module); got != tt.want {
			t.Errorf("linked %q, module %q: got %q, want %q", tt.linked, tt.module, got, tt.want)
		}
	}
}
