// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"testing"
)

func TestCursorNamesPosition(t *testing.T) {
	for _, position := range []int64{0, 1, 41, math.MaxInt64} {
		if got, ok := Position("events", Cursor("events", position)); !ok || got != position {
			t.Errorf("position %d comes back as %d, %v", position, got, ok)
		}
	}
}

func TestOtherTextsAreNoCursors(t *testing.T) {
	good := Cursor("events", 7)
	for _, text := range []string{"", "7", "events:7", good + "=", good + "A", " " + good, Cursor("keys", 7), Cursor("events", -1), "ZXZlbnRzOjA3", "ZXZlbnRzOis3"} {
		if position, ok := Position("events", text); ok {
			t.Errorf("%q is the position %d", text, position)
		}
	}
}
