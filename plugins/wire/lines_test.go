// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLinesDoNotDependOnChunks: however the pipe cuts the stream, the lines
// are the same, and none is over the limit.
func TestLinesDoNotDependOnChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]int{0, 1, 80, MaxLine - 1, MaxLine, MaxLine + 1, 3 * MaxLine})
		var stream []byte
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			line := strings.Repeat("x", length.Draw(t, "length"))
			stream = append(stream, line+"\n"...)
			want = append(want, line[:min(len(line), MaxLine)])
		}
		var got []string
		w := &lineWriter{line: func(l []byte) { got = append(got, string(l)) }}
		for r := bytes.NewBuffer(stream); r.Len() > 0; {
			_, _ = w.Write(r.Next(rapid.IntRange(1, 2*MaxLine).Draw(t, "chunk")))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	})
}
