// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
)

// TestStopDuringTheStartIsNoError cancels the context of Serve before the service is assembled, and
// the context of Run before the jobs start. Both must return no error.
func TestStopDuringTheStartIsNoError(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, newDatabaseURL := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") },
		"PostgreSQL": func(t *testing.T) string { return testserver.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			config, err := settings.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), map[string]any{
				"data_dir": t.TempDir(), "database_url": newDatabaseURL(t), "plugin_dir": testserver.Program(t, "release/plugins"),
				"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "drain_delay": "0s",
			})
			apptest.Must(t, err)
			_, err = wiring.MigrateNow(t.Context(), config, log)
			apptest.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			service, err := wiring.Assemble(ctx, config, log, "http://127.0.0.1", wiring.Overrides{})
			apptest.Must(t, err)
			api, err := Listen(ctx, config.Listen)
			apptest.Must(t, err)
			admin, err := Listen(ctx, config.AdminListen)
			apptest.Must(t, err)
			cancel()
			if err := Run(ctx, service, api, admin, nil, func() {}); err != nil {
				t.Errorf("Run returned %v, want no error", err)
			}
			if err := Serve(ctx, config, log); err != nil {
				t.Errorf("Serve returned %v, want no error", err)
			}
			config.Listen = "localhost:0" // the look-up of localhost fails, because the context has ended
			if err := Serve(ctx, config, log); err != nil {
				t.Errorf("Serve on localhost returned %v, want no error", err)
			}
		})
	}
}
