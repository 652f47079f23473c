// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"io"
	"os"
)

// lifeline closes when whoever started the process lets go of its standard
// input, which the kernel does for it when it is killed. A standard input that
// is no pipe (a terminal, /dev/null) ties the process to nobody.
func lifeline(stdin *os.File) <-chan struct{} {
	ended := make(chan struct{})
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ended
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(ended)
	}()
	return ended
}
