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

// TestVerifiedFileIsTheOneExecuted replaces the file after the check and before the execution.
func TestVerifiedFileIsTheOneExecuted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("only Linux can execute an open file; elsewhere the permissions of the folder must prevent the replacement")
	}
	dir := t.TempDir()
	write := func(name, message string) []byte {
		script := []byte("#!/bin/sh\necho " + message + "\n")
		if err := os.WriteFile(filepath.Join(dir, name), script, 0o755); err != nil {
			t.Fatal(err)
		}
		return script
	}
	sum := sha256.Sum256(write("plugin", "checked"))
	entry := Entry{Name: "p", Kind: "mail", File: "plugin", SHA256: hex.EncodeToString(sum[:])}
	f, err := openVerified(dir, entry)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	write("swapped", "swapped")
	if err := os.Rename(filepath.Join(dir, "swapped"), filepath.Join(dir, "plugin")); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(executablePath(f)).Output(); err != nil || string(output) != "checked\n" {
		t.Fatalf("the program printed %q, %v", output, err)
	}
	if _, err := openVerified(dir, entry); !errors.Is(err, errChecksum) {
		t.Fatalf("the swapped file: %v", err)
	}
}
