// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/plugins/wire"
)

// pluginNotFound is the error for a plugin name that is not in the catalog.
var pluginNotFound = fault.Code{
	Name: "plugin_not_found", Kind: fault.NotFound, Title: "Plugin not found",
	About: "`tenantry plugin list` shows the catalog",
}

func pluginCommand() *cobra.Command {
	group := &cobra.Command{Use: "plugin", Short: "Provider plugins"}
	for _, cmd := range []*cobra.Command{pluginAddCommand(), pluginUpgradeCommand(), pluginRemoveCommand(), pluginListCommand(), pluginManifestCommand(), pluginVerifyCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	group.AddCommand(pluginNewCommand(), pluginTestCommand()) // they read no settings of the service
	return group
}

// addedPluginRow shows a plugin that was just added or upgraded, or that was in the catalog
// already.
type addedPluginRow struct {
	pluginhost.CatalogEntry
	Status          string          `json:"status"`
	PreviousVersion *string         `json:"previous_version"`
	Title           string          `json:"title"`
	Capabilities    []string        `json:"capabilities"`
	Settings        []pluginSetting `json:"settings"`         // set by the operator
	AccountSettings []pluginSetting `json:"account_settings"` // set by each account with its connection
	Reaches         []string        `json:"reaches"`
}

func newAddedPluginRow(a pluginhost.Addition) addedPluginRow {
	row := addedPluginRow{
		CatalogEntry: a.CatalogEntry, Status: string(a.Change), Title: a.Description.Title, Capabilities: append([]string{}, a.Description.Capabilities...),
		Settings: newPluginSettings(a.Description.FieldsOf(wire.OfOperator)), AccountSettings: newPluginSettings(a.Description.FieldsOf(wire.OfAccount)), Reaches: reachesOf(a.Description),
	}
	if a.Change == pluginhost.Replaced {
		row.PreviousVersion = &a.Previous.Version
	}
	return row
}

// Columns implements cli.Row.
func (r addedPluginRow) Columns() [][2]string {
	names := func(settings []pluginSetting) string {
		var settingNames []string
		for _, s := range settings {
			settingNames = append(settingNames, s.Name)
		}
		return cmp.Or(strings.Join(settingNames, " "), "-")
	}
	return [][2]string{
		{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"PREVIOUS VERSION", orDash(r.PreviousVersion)},
		{"FILE", r.File}, {"SHA-256", r.SHA256}, {"CAPABILITIES", cmp.Or(strings.Join(r.Capabilities, " "), "-")},
		{"SETTINGS", names(r.Settings)}, {"SETTINGS OF AN ACCOUNT", names(r.AccountSettings)}, {"MAY REACH", cmp.Or(strings.Join(r.Reaches, " "), "-")},
	}
}

// reachesOf returns the hosts to which a plugin may connect, in a form for people.
func reachesOf(d wire.Description) []string {
	if len(d.Hosts) == 0 {
		return []string{"any host"} // connections of a plugin that names no host are not limited
	}
	return d.Reaches(nil)
}

func pluginAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add FILE…",
		Short: "Add plugin binaries to the catalog, with their checksums",
		Long: "Adds plugin binaries to the catalog of the plugin folder, with their SHA-256. `tenantry config` shows the\n" +
			"folder, which is the setting plugin_dir. The service runs a plugin only if its file has this checksum. A file\n" +
			"from a different folder is copied into the plugin folder. The command runs each binary to read its\n" +
			"description, so add only binaries that you trust. Adding the same file again changes nothing. A running service\n" +
			"uses a new plugin only after a restart. The command shows the settings and capabilities of each plugin, and the\n" +
			"hosts that the plugin may connect to.",
		Args: cli.AtLeastOneFile,
		RunE: installPlugins(pluginhost.Add, audit.AddPlugin),
	}
}

func pluginUpgradeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade FILE…",
		Short: "Replace plugins of the catalog by different versions",
		Long: "Replaces plugins of the catalog by the versions in these files. The command runs each file and checks that it\n" +
			"is healthy before the catalog changes. A service that runs on this plugin folder starts the new version beside\n" +
			"the old one. If the new process is healthy, it takes all further calls, and the old process finishes the calls\n" +
			"in progress. If the new process is not healthy, or exits before it has answered a call, the old version stays in\n" +
			"use, and the log says why.",
		Args: cli.AtLeastOneFile,
		RunE: installPlugins(pluginhost.Upgrade, audit.UpgradePlugin),
	}
}

// installPlugins returns the RunE of a command that adds or upgrades plugins by install, and
// records each change in the audit log as action.
func installPlugins(install func(ctx context.Context, o pluginhost.Options, file string) (pluginhost.Addition, error), action audit.Action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, files []string) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.UsageError(err)
		}
		var rows []addedPluginRow
		for _, file := range files {
			added, err := install(cmd.Context(), pluginhost.Options{Dir: c.PluginDir, Limits: wiring.PluginLimits(c)}, file)
			if added.Name != "" && added.Change != pluginhost.Unchanged { // also if old files could not be deleted
				details := map[string]string{"name": added.Name, "version": added.Version, "sha256": added.SHA256}
				if err := wiring.RecordAction(cmd.Context(), c, action, details); err != nil {
					return err
				}
			}
			switch {
			case errors.Is(err, pluginhost.ErrNotInCatalog):
				return pluginNotFound.With("%s; add it with `tenantry plugin add`", err)
			case errors.Is(err, pluginhost.ErrOtherKind):
				return cli.WithFix(err, "to replace the plugin in the catalog, first remove it with `tenantry plugin remove`")
			case errors.Is(err, verified.ErrChecksum):
				return cli.WithFix(err, "write the manifest again with `tenantry plugin manifest`, if you changed the file")
			case errors.Is(err, fs.ErrPermission):
				return cli.WithFix(err, accessFix(c.PluginDir, err))
			case err != nil && added.Name == "":
				return cli.WithFix(err, "check that the file is a plugin binary for this machine and this version of tenantry")
			case err != nil:
				return err
			}
			rows = append(rows, newAddedPluginRow(added))
		}
		return cli.List(cmd, "plugins", rows)
	}
}

// accessFix returns the fix for missing access to a file, in the plugin folder or elsewhere.
func accessFix(pluginDir string, err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		if path, relErr := filepath.Rel(pluginDir, pathErr.Path); relErr == nil && filepath.IsLocal(path) {
			return fmt.Sprintf("the user who runs this command must be able to write the plugin folder %s, see production.md", pluginDir)
		}
	}
	return cli.FixFileAccess
}

type removedPluginRow struct {
	pluginhost.CatalogEntry
	Status string `json:"status"`
}

// Columns implements cli.Row.
func (r removedPluginRow) Columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"STATUS", r.Status}}
}

func pluginRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME…",
		Short: "Remove plugins from the catalog, with their files",
		Long: "Removes plugins from the catalog and deletes their files. A service that runs on this plugin folder makes no\n" +
			"further calls to them, and stops their processes when the calls in progress have ended. Connections of\n" +
			"accounts to such a provider stay stored, and fail with 503 until the plugin is added again.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s requires the name of at least one plugin", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			removed, err := pluginhost.Remove(c.PluginDir, names...)
			if err != nil && len(removed) == 0 {
				return catalogError(c.PluginDir, err)
			}
			var rows []removedPluginRow
			for _, e := range removed {
				rows = append(rows, removedPluginRow{e, "removed"})
				details := map[string]string{"name": e.Name, "version": e.Version, "sha256": e.SHA256}
				if err := wiring.RecordAction(cmd.Context(), c, audit.RemovePlugin, details); err != nil {
					return err
				}
			}
			if err != nil {
				return err // the catalog has changed, but a file could not be deleted
			}
			return cli.List(cmd, "plugins", rows)
		},
	}
}

// catalogError returns the error of a command that could not use the catalog.
func catalogError(dir string, err error) error {
	switch {
	case errors.Is(err, pluginhost.ErrNotInCatalog):
		return pluginNotFound.With("%s", err)
	case errors.Is(err, fs.ErrNotExist):
		return cli.WithFix(fmt.Errorf("%s has no plugin catalog", dir), wiring.CatalogFix(dir, err))
	}
	return cli.WithFix(err, wiring.CatalogFix(dir, err))
}

// pluginSetting shows a field that a plugin describes.
type pluginSetting struct {
	Name     string `json:"name"`
	Secret   bool   `json:"secret"`
	Required bool   `json:"required"`
	Default  string `json:"default"`
	Help     string `json:"help"`
}

// pluginRow shows a plugin of the catalog, the settings that the operator sets for it, and the
// result of its inspection.
type pluginRow struct {
	pluginhost.CatalogEntry
	Title    string          `json:"title"`
	Settings []pluginSetting `json:"settings"`
	Status   string          `json:"status"`
	Problem  string          `json:"problem"`
}

func newPluginRow(inspection pluginhost.Inspection) pluginRow {
	row := pluginRow{CatalogEntry: inspection.CatalogEntry, Title: inspection.Description.Title, Settings: newPluginSettings(inspection.Description.FieldsOf(wire.OfOperator)), Status: "ok"}
	if inspection.Problem != nil {
		row.Status, row.Problem = "failed", cli.FirstLine(inspection.Problem)
	}
	return row
}

// newPluginSettings returns a row for each field. The row of a field that the operator sets shows
// the name of its setting.
func newPluginSettings(fields []wire.Field) []pluginSetting {
	rows := []pluginSetting{}
	for _, f := range fields {
		name := f.Name
		if !f.Account {
			name = wiring.SettingOf(f)
		}
		rows = append(rows, pluginSetting{name, f.Secret, f.Required, f.Default, f.Help})
	}
	return rows
}

// Columns implements cli.Row.
func (r pluginRow) Columns() [][2]string {
	var needs []string
	for _, s := range r.Settings {
		if s.Required || s.Secret {
			needs = append(needs, s.Name)
		}
	}
	return [][2]string{
		{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"FILE", r.File}, {"SHA-256", r.SHA256},
		{"REQUIRED SETTINGS AND CREDENTIALS", cmp.Or(strings.Join(needs, " "), "-")},
	}
}

func pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the plugins of the catalog, and the settings that each needs",
		Long: "Lists the plugins of the catalog with their descriptions. The command starts each plugin to read its\n" +
			"description, and stops it. With --output json it shows all settings of a plugin and their purpose. A\n" +
			"provider's setting NAME is read from providers.PROVIDER.NAME, or TENANTRY_PROVIDERS_<PROVIDER>_<NAME>.\n" +
			"`tenantry plugin verify` reports problems.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := inspectPlugins(cmd, nil)
			if err != nil {
				return err
			}
			return cli.List(cmd, "plugins", rows)
		},
	}
}

// verifiedPluginRow is pluginRow with the columns of `plugin verify`.
type verifiedPluginRow struct{ pluginRow }

// Columns implements cli.Row.
func (r verifiedPluginRow) Columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"PROBLEM", cmp.Or(r.Problem, "-")}}
}

func pluginVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME…]",
		Short: "Check that each plugin is unchanged since it was added, and runs",
		Long: "Checks each plugin of the catalog, or only the plugins with these names. The file must exist and have the\n" +
			"SHA-256 of the catalog. The plugin must start, be compatible with this version of tenantry, and describe\n" +
			"itself as the catalog does. The exit code is 1 when a check fails.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			rows, err := inspectPlugins(cmd, names)
			if err != nil {
				return err
			}
			verifiedRows := make([]verifiedPluginRow, len(rows))
			for i, row := range rows {
				verifiedRows[i] = verifiedPluginRow{row}
			}
			if err := cli.List(cmd, "plugins", verifiedRows); err != nil {
				return err
			}
			if slices.ContainsFunc(rows, func(r pluginRow) bool { return r.Problem != "" }) {
				return cli.ErrReported
			}
			return nil
		},
	}
}

// inspectPlugins starts the plugins with these names and returns a row for each. Without names it
// starts all plugins. It fails when the settings are invalid, when the catalog cannot be read, or
// when the catalog has no plugin with one of the names.
func inspectPlugins(cmd *cobra.Command, names []string) ([]pluginRow, error) {
	c, err := settings.Load(cmd.Flags(), nil)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: c.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ(), Limits: wiring.PluginLimits(c)}, names...)
	if err != nil {
		return nil, catalogError(c.PluginDir, err)
	}
	rows := make([]pluginRow, len(inspections))
	for i, inspection := range inspections {
		rows[i] = newPluginRow(inspection)
	}
	return rows, nil
}
