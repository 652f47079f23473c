// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
)

// pluginNotFound is the error of a plugin name that the catalog does not have.
var pluginNotFound = fault.Code{
	Name: "plugin_not_found", Kind: fault.NotFound, Title: "Plugin not found",
	About: "`tenantry plugin list` shows the catalog",
}

// pluginCommand returns the group of commands on the plugin catalog.
func pluginCommand() *cobra.Command {
	group := &cobra.Command{Use: "plugin", Short: "Provider plugins"}
	for _, cmd := range []*cobra.Command{pluginAddCommand(), pluginListCommand(), pluginManifestCommand(), pluginVerifyCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

// addedPluginRow shows a plugin that was just added, or that was in the catalog already.
type addedPluginRow struct {
	pluginhost.Entry
	Status string `json:"status"`
}

// Columns implements cli.Row.
func (r addedPluginRow) Columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"FILE", r.File}, {"SHA-256", r.SHA256}}
}

func pluginAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add FILE…",
		Short: "Add plugin binaries to the catalog, with their checksums",
		Long: "Adds plugin binaries to the catalog of the plugin folder, with their SHA-256. Under the name of a plugin\n" +
			"only the file with this checksum can run. A file from a different folder is copied into the plugin folder.\n" +
			"The command runs each binary to read its description, so add only binaries that you trust. Adding the same\n" +
			"file again changes nothing.",
		Args: cli.SomeFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			var rows []addedPluginRow
			for _, file := range files {
				entry, result, err := pluginhost.Add(cmd.Context(), c.PluginDir, file)
				if err != nil {
					return cli.WithFix(err, "check that the file is a plugin binary for this machine and this version of tenantry")
				}
				rows = append(rows, addedPluginRow{entry, string(result)})
				if result == pluginhost.Unchanged {
					continue
				}
				details := map[string]string{"name": entry.Name, "version": entry.Version, "sha256": entry.SHA256}
				if err := wiring.RecordAction(cmd.Context(), c, audit.AddPlugin, details); err != nil {
					return err
				}
			}
			return cli.List(cmd, "plugins", rows)
		},
	}
}

// pluginSetting shows a setting of a provider, as its plugin describes it.
type pluginSetting struct {
	Name     string `json:"name"`
	Secret   bool   `json:"secret"`
	Required bool   `json:"required"`
	Default  string `json:"default"`
	Help     string `json:"help"`
}

// pluginRow shows a plugin of the catalog, its settings and the result of its inspection.
type pluginRow struct {
	pluginhost.Entry
	Title    string          `json:"title"`
	Settings []pluginSetting `json:"settings"`
	Status   string          `json:"status"`
	Problem  string          `json:"problem"`
}

func newPluginRow(inspection pluginhost.Inspection) pluginRow {
	row := pluginRow{Entry: inspection.Entry, Title: inspection.Description.Title, Settings: []pluginSetting{}, Status: "ok"}
	if inspection.Problem != nil {
		row.Status, row.Problem = "failed", cli.OneLine(inspection.Problem)
	}
	for _, f := range inspection.Description.FieldsOf(false) {
		row.Settings = append(row.Settings, pluginSetting{wiring.SettingOf(f), f.Secret, f.Required, f.Default, f.Help})
	}
	return row
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
			verified := make([]verifiedPluginRow, len(rows))
			for i, row := range rows {
				verified[i] = verifiedPluginRow{row}
			}
			if err := cli.List(cmd, "plugins", verified); err != nil {
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
// starts all plugins. It fails when the catalog cannot be read or does not contain a name.
func inspectPlugins(cmd *cobra.Command, names []string) ([]pluginRow, error) {
	c, err := settings.Load(cmd.Flags(), nil)
	if err != nil {
		return nil, cli.Usage(err)
	}
	inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: c.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ(), Limits: wiring.PluginLimits(c)}, names...)
	switch {
	case errors.Is(err, pluginhost.ErrNotInCatalog):
		return nil, pluginNotFound.With("%s", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.WithFix(fmt.Errorf("%s has no plugin catalog", c.PluginDir), wiring.CatalogFix(c.PluginDir, err))
	case err != nil:
		return nil, cli.WithFix(err, wiring.CatalogFix(c.PluginDir, err))
	}
	rows := make([]pluginRow, len(inspections))
	for i, inspection := range inspections {
		rows[i] = newPluginRow(inspection)
	}
	return rows, nil
}
