// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/apptest"
)

// TestRebuiltPluginIsUsedIfOldFilesRemain passes results of pluginhost.Add to useRebuilt. A rebuilt
// plugin is used even if files of old builds cannot be deleted. A plugin that was not added is not
// used.
func TestRebuiltPluginIsUsedIfOldFilesRemain(t *testing.T) {
	rebuilt := pluginhost.Addition{}
	rebuilt.Name, rebuilt.Version, rebuilt.Change = "acme", "1.1.0", pluginhost.Replaced
	for _, tt := range []struct {
		name       string
		added      pluginhost.Addition
		err        error
		wantUsed   bool
		wantLogged string
	}{
		{"added", rebuilt, nil, true, "the rebuilt plugin is used"},
		{"old files remain", rebuilt, errors.New("acme is in the catalog, but dns-acme-0123456789ab is busy"), true, "is busy"},
		{"not added", pluginhost.Addition{}, errors.New("it does not describe itself"), false, "does not describe itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			apptest.Must(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(`{"plugins":[]}`), 0o600))
			host, err := pluginhost.New(pluginhost.Options{Dir: dir})
			apptest.Must(t, err)
			t.Cleanup(host.Close)
			var logged bytes.Buffer
			restarted, printed := "", ""
			restartSimulator := func(_ context.Context, name string) error { restarted = name; return nil }
			use := useRebuilt(t.Context(), &pluginUnderDevelopment{name: "acme"}, host, restartSimulator,
				slog.New(slog.NewTextHandler(&logged, nil)), func(text string) { printed += text })
			use(tt.added, tt.err)
			if used := restarted == "acme" && strings.Contains(printed, "is in use"); used != tt.wantUsed {
				t.Errorf("used %t, want %t; restarted the simulator %q and printed %q", used, tt.wantUsed, restarted, printed)
			}
			if !strings.Contains(logged.String(), tt.wantLogged) {
				t.Errorf("the log lacks %q:\n%s", tt.wantLogged, &logged)
			}
		})
	}
}

// TestBuildThatCouldNotBeAddedIsTriedAgain writes the same new build twice. The first build is not
// copied, so the second one is new too. After a copy, a build with the same content is not new.
func TestBuildThatCouldNotBeAddedIsTriedAgain(t *testing.T) {
	p := &pluginUnderDevelopment{builtFile: filepath.Join(t.TempDir(), "plugin")}
	modified := time.Now()
	build := func() (sum [sha256.Size]byte, rebuilt bool) {
		t.Helper()
		modified = modified.Add(time.Second)
		apptest.Must(t, os.WriteFile(p.builtFile, []byte("the new build"), 0o700))
		apptest.Must(t, os.Chtimes(p.builtFile, modified, modified))
		if _, rebuilt := p.wasRebuilt(); rebuilt {
			t.Error("a file that has just changed counts as a new build")
		}
		return p.wasRebuilt()
	}
	if _, rebuilt := build(); !rebuilt {
		t.Error("the first build does not count as new")
	}
	sum, rebuilt := build()
	if !rebuilt {
		t.Error("the second build does not count as new, although the first one was not copied")
	}
	p.copiedSum = sum
	if _, rebuilt := build(); rebuilt {
		t.Error("a build with the copied content counts as new")
	}
}
