// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// Benchmarks runs those of this package's benchmarks that match, for one round
// and with -short, so that none is broken by the time that somebody measures.
func Benchmarks(t *testing.T, match string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	once := exec.CommandContext(t.Context(), exe, "-test.short", "-test.run=^$", "-test.bench="+match, "-test.benchtime=1x")
	said, err := once.CombinedOutput()
	if err != nil || !bytes.Contains(said, []byte("\nBenchmark")) {
		t.Fatalf("benchmarks %s: %v\n%s", match, err, said)
	}
}
