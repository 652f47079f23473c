// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/access"
)

func TestCheckEmail(t *testing.T) {
	for email, good := range map[string]bool{
		"ann@example.com": true, "ann.lee+x@sub.example.com": true, "Änn@exämple.com": true, "ann@localhost": true,
		"": false, "ann": false, "@example.com": false, "ann@": false, "a@b@c": false, "an n@example.com": false,
		"ann@exam\nple.com": false, "ann@exam\x00ple.com": false, strings.Repeat("a", 250) + "@b.example": false,
	} {
		if err := access.CheckEmail(email); (err == nil) != good {
			t.Errorf("%q: %v", email, err)
		}
	}
}
