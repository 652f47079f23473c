// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/settings"
)

// TestInvalidCredentialFileKeepsTheLastContent checks which content is in use after a file has
// changed: the new content if it is valid, and otherwise the content before the change.
func TestInvalidCredentialFileKeepsTheLastContent(t *testing.T) {
	chain, key := testserver.SelfSigned(t)
	pair := string(chain) + string(key)
	otherChain, otherKey := testserver.SelfSigned(t)
	otherPair := string(otherKey) + string(otherChain)
	for name, tc := range map[string]struct{ before, after, want string }{
		"a new secret":                       {"one", "two", "two"},
		"a new secret with a final newline":  {"one", "two\n", "two"},
		"an empty secret":                    {"one", "\n", "one"},
		"a new certificate with its key":     {pair, otherPair, strings.TrimSpace(otherPair)},
		"the first half of the file":         {pair, pair[:len(pair)/2], strings.TrimSpace(pair)},
		"a certificate without its key":      {pair, string(otherChain), strings.TrimSpace(pair)},
		"a certificate with a different key": {pair, string(chain) + string(otherKey), strings.TrimSpace(pair)},
		"the second half of the file":        {pair, pair[len(pair)/2:], strings.TrimSpace(pair)},
		"a secret after an empty file":       {"", "two", "two"},
	} {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			files := &CredentialFiles{log: slog.New(slog.NewTextHandler(&logs, nil))}
			path := filepath.Join(t.TempDir(), "file")
			readContent := func(content string) string {
				must(t, os.WriteFile(path, []byte(content), 0o600))
				got, err := files.read(t.Context(), "test", "secret_file", path)
				if (err == nil) == got.Empty() {
					t.Fatalf("the content is empty = %v, with the error %v, want either content or an error", got.Empty(), err)
				}
				return got.Reveal()
			}
			readContent(tc.before)
			if got := readContent(tc.after); got != tc.want {
				t.Errorf("read returned %.60q, want %.60q", got, tc.want)
			}
			kept := tc.want == strings.TrimSpace(tc.before)
			if state := files.states(t.Context())[credentialSetting{"test", "secret_file"}]; state.inUse.Reveal() != tc.want || state.usable == kept {
				t.Errorf("the content %.60q is in use and the file is usable = %v, want %.60q and %v", state.inUse.Reveal(), state.usable, tc.want, !kept)
			}
			if kept != strings.Contains(logs.String(), "stays in use") {
				t.Errorf("the log is %q, want `stays in use` in it: %v", logs.String(), kept)
			}
		})
	}
}

// TestCredentialFileThatNeverWasValidIsUnusable checks a file that does not exist.
func TestCredentialFileThatNeverWasValidIsUnusable(t *testing.T) {
	files := &CredentialFiles{log: slog.New(slog.DiscardHandler)}
	if _, err := files.read(t.Context(), "test", "secret_file", filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Fatal("a missing file can be read")
	}
	if state := files.states(t.Context())[credentialSetting{"test", "secret_file"}]; state.usable || !state.inUse.Empty() {
		t.Errorf("the missing file is usable = %v and has content = %v, want neither", state.usable, !state.inUse.Empty())
	}
}

// TestConfiguredCredentialFileHasAStateBeforeItsFirstRead checks the files of the mail platform,
// whose plugin has not described itself yet.
func TestConfiguredCredentialFileHasAStateBeforeItsFirstRead(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	valid, missing := filepath.Join(dir, "valid"), filepath.Join(dir, "missing")
	must(t, os.WriteFile(valid, []byte("canary"), 0o600))
	service := &Service{Host: &pluginhost.Host{}, Log: log, credentialFiles: &CredentialFiles{log: log}}
	_, err := service.openMailPlatform(settings.Config{MailPlatform: "test", Providers: map[string]map[string]string{
		"test": {"client_id": "x", "certificate_file": valid, "client_secret_file": missing, "other_file": ""},
	}}, Overrides{})
	must(t, err)
	states := service.credentialFiles.states(t.Context())
	if state := states[credentialSetting{"test", "certificate_file"}]; !state.usable || state.inUse.Reveal() != "canary" {
		t.Errorf("the valid file is usable = %v, want true with its content", state.usable)
	}
	if state, found := states[credentialSetting{"test", "client_secret_file"}]; !found || state.usable || len(states) != 2 {
		t.Errorf("%d files have a state, the missing file is usable = %v, want two files and an unusable missing file", len(states), state.usable)
	}
}
