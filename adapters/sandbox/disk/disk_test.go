// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

func TestLoadReturnsWhatWasSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thing.json")
	got := []string{"fresh"}
	if err := disk.Load(path, &got); err != nil || len(got) != 1 {
		t.Fatalf("without a file: %v, %v, want the value unchanged", got, err)
	}
	for _, want := range []string{"a longer text than the next", "b"} {
		if err := disk.Save(path, []string{want}); err != nil {
			t.Fatal(err)
		}
		if err := disk.Load(path, &got); err != nil || got[0] != want {
			t.Fatalf("got %v, %v, want %s", got, err, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v, want the mode 0600", info, err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thing.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var value []string
	if err := disk.Load(path, &value); err == nil || !strings.HasPrefix(err.Error(), "thing.json: ") {
		t.Fatalf("got %v, want an error that begins with the name of the file", err)
	}
	if disk.Save(filepath.Join(path, "below"), value) == nil || disk.Save(path, func() {}) == nil {
		t.Fatal("Save succeeded for an invalid path or value")
	}
}
