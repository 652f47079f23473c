// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
)

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-emailbison")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newWorld)
}
