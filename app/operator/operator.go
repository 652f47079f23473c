// SPDX-License-Identifier: Apache-2.0

// Package operator implements the commands with which an operator manages an installation.
//
// The commands use the database and files directly, so the service does not have to run. Most
// commands have three parts: a function that builds the cobra.Command with its flags, a body that
// calls the store or a service, and a row type. The row type implements cli.Row. It defines the
// columns of the table and the members of the JSON output.
//
//   - operator.go: Commands, and the helpers that open the database (withStore) or all services
//     (withService) for the body of a command.
//   - account.go: accounts and their plans. account_set.go: what the connect pages show of an
//     account. account_close.go: the closing of accounts.
//   - key.go: API keys. keybounds.go: the flags and columns of their bounds.
//   - tenant.go: the list of tenants and their time zones. tenant_assignment.go: assigning
//     managed tenants, withdrawing them, and removing managed transport rules.
//   - dnsconnection.go: DNS connections. dnsconnection_add.go adds one, dnsconnection_form.go
//     checks its settings and secrets, and dnsconnection_failure.go explains a failed test.
//   - dns.go: undoing the DNS changes of a provisioning run.
//   - plugin.go: the plugin catalog. For authors of plugins: plugin_new.go writes a new plugin,
//     pluginmanifest.go lists a plugin's files with their checksums, and plugintest.go runs the
//     conformance suite.
//   - keyset.go: the keys that encrypt stored secrets.
//   - audit.go: the audit log. audit_verify.go: checks that an export of audit entries is an
//     unbroken chain.
//   - config.go: the values of all settings.
//   - plugincompletion.go: the shell completion of flags whose value is the name of a plugin. The
//     command `completion` is in package cli.
//
// Start reading in operator.go. Then read key.go, which is one complete group of commands.
package operator

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
)

// Commands returns the commands of an operator. The caller adds them to the root command.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		accountCommand(), keyCommand(), tenantCommand(), dnsConnectionCommand(), dnsCommand(), auditCommand(), pluginCommand(), keysetCommand(), configCommand(),
	}
}

// storeFunc is the body of a command that needs only the database.
type storeFunc func(context.Context, *cobra.Command, *bunstore.Store) error

// withStore returns a RunE that opens the database and calls run with it.
func withStore(run storeFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.UsageError(err)
		}
		if err := wiring.RequireDatabase(c); err != nil {
			return err
		}
		store, err := wiring.OpenStore(cmd.Context(), c, bunstore.Options{Log: commandLog(cmd, c.Level())})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		return run(cmd.Context(), cmd, store)
	}
}

// withService returns a RunE that assembles all services and calls run with them.
func withService(run func(context.Context, *cobra.Command, *wiring.Service) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		s, err := assembleService(cmd)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close(context.WithoutCancel(cmd.Context())) }()
		return run(cmd.Context(), cmd, s)
	}
}

// assembleService assembles all services from the settings of cmd. The caller must close the
// result.
func assembleService(cmd *cobra.Command) (*wiring.Service, error) {
	c, err := settings.Load(cmd.Flags(), nil)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if err := wiring.RequireDatabase(c); err != nil {
		return nil, err
	}
	return wiring.Assemble(cmd.Context(), c, commandLog(cmd, c.Level()), c.PublicURL, wiring.Overrides{})
}

// commandLog returns the logger of a short command. It writes records only if the log level is
// debug, because the command reports a failure as its error.
func commandLog(cmd *cobra.Command, level slog.Level) *slog.Logger {
	if level > slog.LevelDebug {
		return slog.New(slog.DiscardHandler)
	}
	return telemetry.NewLogger(cmd.ErrOrStderr(), level)
}

// findOptionalAccount returns the id of the account that idOrEmail names, or "" when idOrEmail is
// empty.
func findOptionalAccount(ctx context.Context, store *bunstore.Store, idOrEmail string) (access.AccountID, error) {
	if idOrEmail == "" {
		return "", nil
	}
	acc, err := store.FindAccount(ctx, idOrEmail)
	return acc.ID, err
}

// checkName returns a usage error if name must not be the value of --name.
func checkName(name string) error {
	if utf8.RuneCountInString(name) > 100 || cli.Printable(name) != name {
		return cli.UsageError(errors.New("--name must be one line of at most 100 characters"))
	}
	return nil
}

// optionalStamp formats a time as cli.FormatTime does. It returns nil, which is null in JSON, for
// the zero time.
func optionalStamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := cli.FormatTime(t)
	return &text
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
