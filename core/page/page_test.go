// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/page"
)

func TestCursors(t *testing.T) {
	cursor := page.Encode("deliveries", "019a52d0")
	if got, ok := page.Decode("deliveries", cursor); !ok || got != "019a52d0" {
		t.Errorf("got %q, %v", got, ok)
	}
	for _, other := range []string{"", "x", "019a52d0", cursor[1:], page.Encode("webhooks", "019a52d0"), cursor + "="} {
		if position, ok := page.Decode("deliveries", other); ok {
			t.Errorf("%q is accepted as %q", other, position)
		}
	}
}
