// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestWhatWasCheckedIsWhatRuns swaps the file after the check and before the
// execution.
func TestWhatWasCheckedIsWhatRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("executing an open file is written for Linux only; elsewhere this promise rests on the folder's permissions")
	}
	dir := t.TempDir()
	write := func(name, says string) []byte {
		script := []byte("#!/bin/sh\necho " + says + "\n")
		if err := os.WriteFile(filepath.Join(dir, name), script, 0o755); err != nil {
			t.Fatal(err)
		}
		return script
	}
	sum := sha256.Sum256(write("plugin", "checked"))
	e := Entry{Name: "p", Kind: "mail", File: "plugin", SHA256: hex.EncodeToString(sum[:])}
	f, err := openVerified(dir, e)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	write("swapped", "swapped")
	if err := os.Rename(filepath.Join(dir, "swapped"), filepath.Join(dir, "plugin")); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(executable(f)).Output(); err != nil || string(said) != "checked\n" {
		t.Fatalf("it said %q, %v", said, err)
	}
	if _, err := openVerified(dir, e); !errors.Is(err, errChecksum) {
		t.Fatalf("the swapped file: %v", err)
	}
}
