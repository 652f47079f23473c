// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/base64"
	"errors"
	"math"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
)

func TestPositionIsThatOfTheCursor(t *testing.T) {
	for _, want := range []int64{0, 1, 4711, math.MaxInt64} {
		if got, err := page.Position("audit", page.Cursor("audit", want)); err != nil || got != want {
			t.Errorf("%d became %d, %v", want, got, err)
		}
	}
}

func TestForeignCursorsAreRefused(t *testing.T) {
	raw := base64.RawURLEncoding.EncodeToString
	for _, cursor := range []string{
		"", "1", "audit:1", "%", page.Cursor("events", 1), page.Cursor("audit", -1), raw([]byte("audit:")), raw([]byte("audit:01")),
		raw([]byte("audit:+1")), raw([]byte("audit:1 ")), raw([]byte("audit:9223372036854775808")), page.Cursor("audit", 1) + "=",
	} {
		if got, err := page.Position("audit", cursor); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%q is %d, %v", cursor, got, err)
		}
	}
}
