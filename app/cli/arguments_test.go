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
	for _, tc := range []struct {
		text      string
		wantError string
	}{
		{" hunter2\n", ""}, {strings.Repeat("x", maxSecret), ""}, {strings.Repeat("x", maxSecret+1), "longer than"}, {" \n", "is empty"},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{file, "-"} { // "-" is standard input
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetIn(strings.NewReader(tc.text))
			got, err := ReadSecret(cmd, source, "passphrase")
			switch {
			case tc.wantError == "" && (err != nil || got.Reveal() != strings.TrimSpace(tc.text)):
				t.Errorf("%d bytes from %s: got %d bytes, %v, want the text without the space around it", len(tc.text), source, len(got.Reveal()), err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("%d bytes from %s: %v, want an error with %q", len(tc.text), source, err, tc.wantError)
			}
		}
	}
}
