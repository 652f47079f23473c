// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestSecretsAreReadWholeOrRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for _, tt := range []struct {
		text      string
		wantError string
	}{
		{" hunter2\n", ""}, {strings.Repeat("x", maxSecret), ""}, {strings.Repeat("x", maxSecret+1), "longer than"}, {" \n", "is empty"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, "-"} {
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetIn(strings.NewReader(tt.text))
			got, err := ReadSecret(cmd, name, "passphrase")
			switch {
			case tt.wantError == "" && (err != nil || got.Reveal() != strings.TrimSpace(tt.text)):
				t.Errorf("%d bytes from %s: %v", len(tt.text), name, err)
			case tt.wantError != "" && (err == nil || !strings.Contains(err.Error(), tt.wantError)):
				t.Errorf("%d bytes from %s: %v, want an error with %q", len(tt.text), name, err, tt.wantError)
			}
		}
	}
}
