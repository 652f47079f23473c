// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
)

type pluginRow struct {
	pluginhost.Entry
}

func (r pluginRow) columns() [][2]string {
	return [][2]string{{"NAME", r.Name}, {"KIND", r.Kind}, {"VERSION", r.Version}, {"FILE", r.File}, {"SHA-256", r.SHA256}}
}

func pluginCommand() *cobra.Command {
	group := &cobra.Command{Use: "plugin", Short: "Provider plugins"}
	add := &cobra.Command{
		Use:   "add FILE…",
		Short: "Let these plugin binaries run, exactly as they are now",
		Long: "Adds plugin binaries to the catalog of the plugin folder, with their SHA-256: from then on exactly\n" +
			"these files may run under their names. A file from elsewhere is copied into the folder. The binary is run\n" +
			"once to ask what it provides, so add only what you trust.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			c, err := loadConfig(cmd.Flags(), nil)
			if err != nil {
				return usageError{err}
			}
			var rows []pluginRow
			for _, file := range files {
				entry, err := pluginhost.Add(cmd.Context(), c.PluginDir, file)
				if err != nil {
					return failure{err, "is the file a plugin binary for this machine?"}
				}
				rows = append(rows, pluginRow{entry})
			}
			return list(cmd, "plugins", rows)
		},
	}
	Config{}.flags(add.Flags())
	group.AddCommand(add)
	return group
}
