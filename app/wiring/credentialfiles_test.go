// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestInvalidCredentialFileKeepsTheLastContent checks which content is used after a file changes,
// depending on its previous content.
func TestInvalidCredentialFileKeepsTheLastContent(t *testing.T) {
	chain, key := testserver.SelfSigned(t)
	pair := string(chain) + string(key)
	otherChain, otherKey := testserver.SelfSigned(t)
	other := string(otherKey) + string(otherChain)
	for name, tt := range map[string]struct{ before, after, want string }{
		"a secret":              {"one", "two", "two"},
		"with a final newline":  {"one", "two\n", "two"},
		"an empty secret":       {"one", "\n", "one"},
		"a certificate":         {pair, other, strings.TrimSpace(other)},
		"half a certificate":    {pair, pair[:900], strings.TrimSpace(pair)},
		"the certificate alone": {pair, string(otherChain), strings.TrimSpace(pair)},
		"a foreign key":         {pair, string(chain) + string(otherKey), strings.TrimSpace(pair)},
		"the end of a file":     {pair, pair[900:], strings.TrimSpace(pair)},
		"an empty first file":   {"", "two", "two"},
	} {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			f := &CredentialFiles{log: slog.New(slog.NewTextHandler(&logs, nil))}
			path := filepath.Join(t.TempDir(), "file")
			read := func(content string) string {
				must(t, os.WriteFile(path, []byte(content), 0o600))
				got, err := f.read(t.Context(), "test", "secret_file", path)
				if (err == nil) == got.Empty() {
					t.Fatalf("got empty = %v, error %v", got.Empty(), err)
				}
				return got.Reveal()
			}
			read(tt.before)
			if got := read(tt.after); got != tt.want {
				t.Errorf("got %.60q, want %.60q", got, tt.want)
			}
			if kept := tt.want == strings.TrimSpace(tt.before); kept != strings.Contains(logs.String(), "stays in use") {
				t.Errorf("logged %s", logs.String())
			}
		})
	}
}
