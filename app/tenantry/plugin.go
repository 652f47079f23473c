// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
)

func pluginCommand() *cobra.Command {
	group := &cobra.Command{Use: "plugin", Short: "Provider plugins"}
	for _, cmd := range []*cobra.Command{pluginAddCommand(), pluginListCommand(), pluginVerifyCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

type addedRow struct {
	pluginhost.Entry
	Status string `json:"status"`
}

func (r addedRow) Columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"STATUS", r.Status}, {"FILE", r.File}, {"SHA-256", r.SHA256}}
}

func pluginAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add FILE…",
		Short: "Let these plugin binaries run, exactly as they are now",
		Long: "Adds plugin binaries to the catalog of the plugin folder, with their SHA-256: from then on exactly\n" +
			"these files may run under their names. A file from elsewhere is copied into the folder. The binary is run\n" +
			"to ask what it provides, so add only what you trust. Adding the same file again changes nothing.",
		Args: cli.SomeFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			var rows []addedRow
			for _, file := range files {
				entry, done, err := pluginhost.Add(cmd.Context(), c.PluginDir, file)
				if err != nil {
					return cli.WithFix(err, "is the file a plugin binary for this machine and this version of tenantry?")
				}
				rows = append(rows, addedRow{entry, string(done)})
				if done == pluginhost.Unchanged {
					continue
				}
				details := map[string]string{"name": entry.Name, "version": entry.Version, "sha256": entry.SHA256}
				if err := recordAct(cmd.Context(), c, audit.AddPlugin, details); err != nil {
					return err
				}
			}
			return cli.List(cmd, "plugins", rows)
		},
	}
}
