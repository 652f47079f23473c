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
// that of Run before the jobs start. Both must end without an error, as a stop at any later time.
func TestStopDuringTheStartIsNoError(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, databaseURL := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") },
		"PostgreSQL": func(t *testing.T) string { return testserver.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := settings.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), map[string]any{
				"data_dir": t.TempDir(), "database_url": databaseURL(t), "plugin_dir": testserver.Program(t, "release/plugins"),
				"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "drain_delay": "0s",
			})
			apptest.Must(t, err)
			_, err = wiring.MigrateNow(t.Context(), c, log)
			apptest.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			s, err := wiring.Assemble(ctx, c, log, "http://127.0.0.1", wiring.Overrides{})
			apptest.Must(t, err)
			api, err := Listen(ctx, c.Listen)
			apptest.Must(t, err)
			admin, err := Listen(ctx, c.AdminListen)
			apptest.Must(t, err)
			cancel()
			if err := Run(ctx, s, api, admin, nil, func() {}); err != nil {
				t.Errorf("Run returned %v, want no error", err)
			}
			if err := Serve(ctx, c, log); err != nil {
				t.Errorf("Serve returned %v, want no error", err)
			}
			c.Listen = "localhost:0" // the look-up of localhost fails, because the context has ended
			if err := Serve(ctx, c, log); err != nil {
				t.Errorf("Serve on localhost returned %v, want no error", err)
			}
		})
	}
}
