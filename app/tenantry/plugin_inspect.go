// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/tenantry/tenantry/core/fault"
)

var pluginNotFound = fault.Code{
	Name: "plugin_not_found", Kind: fault.NotFound, Title: "Plugin not found",
	About: "`tenantry plugin list` shows all that the catalog has",
}

type pluginSetting struct {
	Name     string `json:"name"`
	Secret   bool   `json:"secret"`
	Required bool   `json:"required"`
	Default  string `json:"default"`
	Help     string `json:"help"`
}

// pluginRow is a plugin of the catalog, and what it says of itself.
type pluginRow struct {
	pluginhost.Entry
	Title    string          `json:"title"`
	Settings []pluginSetting `json:"settings"`
	Status   string          `json:"status"`
	Problem  string          `json:"problem"`
}

func pluginOf(found pluginhost.Inspection) pluginRow {
	row := pluginRow{Entry: found.Entry, Title: found.Description.Title, Settings: []pluginSetting{}, Status: "ok"}
	if found.Problem != nil {
		row.Status, row.Problem = "failed", cli.OneLine(found.Problem)
	}
	for _, f := range found.Description.FieldsOf(false) {
		row.Settings = append(row.Settings, pluginSetting{settingOf(f), f.Secret, f.Required, f.Default, f.Help})
	}
	return row
}

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
		Long: "Lists the plugins of the catalog and what each says of itself: it is started for that, and ended. With\n" +
			"--output json all its settings are shown, with what they are for. A provider's setting NAME is read from\n" +
			"providers.PROVIDER.NAME, or TENANTRY_PROVIDERS_<PROVIDER>_<NAME>. `tenantry plugin verify` says what is wrong.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := inspected(cmd, nil)
			if err != nil {
				return err
			}
			return cli.List(cmd, "plugins", rows)
		},
	}
}

type verifiedRow struct{ pluginRow }

func (r verifiedRow) Columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"PROBLEM", cmp.Or(r.Problem, "-")}}
}

func pluginVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME…]",
		Short: "Check that each plugin is the one that was added, and runs",
		Long: "Checks each plugin of the catalog, or those named: its file is there and has the catalog's SHA-256, it\n" +
			"starts, speaks with this version of tenantry, and says of itself what the catalog says. Exit code 1 when\n" +
			"one does not.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			rows, err := inspected(cmd, names)
			if err != nil {
				return err
			}
			verified := make([]verifiedRow, len(rows))
			for i, row := range rows {
				verified[i] = verifiedRow{row}
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

// inspected looks at the plugins with these names, or at all.
func inspected(cmd *cobra.Command, names []string) ([]pluginRow, error) {
	c, err := settings.Load(cmd.Flags(), nil)
	if err != nil {
		return nil, cli.Usage(err)
	}
	found, err := pluginhost.Inspect(pluginhost.Options{Dir: c.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ()}, names...)
	switch {
	case errors.Is(err, pluginhost.ErrNotInCatalog):
		return nil, pluginNotFound.With("%s", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.WithFix(fmt.Errorf("%s holds no plugin catalog", c.PluginDir), catalogFix(c.PluginDir, err))
	case err != nil:
		return nil, cli.WithFix(err, catalogFix(c.PluginDir, err))
	}
	rows := make([]pluginRow, len(found))
	for i, one := range found {
		rows[i] = pluginOf(one)
	}
	return rows, nil
}
