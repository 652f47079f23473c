// SPDX-License-Identifier: Apache-2.0

package wire

import "bytes"

// MaxLine bounds a line of a plugin's output; what is longer is cut off.
const MaxLine = 8 << 10

// lineWriter cuts a stream into lines. Memory is bounded however long a line
// is. It serves one writer at a time.
type lineWriter struct {
	line func([]byte)
	part []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.keep(p)
			return n, nil
		}
		w.keep(p[:end])
		w.line(w.part)
		w.part = w.part[:0]
		p = p[end+1:]
	}
}

func (w *lineWriter) keep(p []byte) {
	room := MaxLine - len(w.part)
	w.part = append(w.part, p[:min(room, len(p))]...)
}
