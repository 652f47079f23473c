// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/plugins/wire"
)

// completePlugins returns a completion that offers the plugins of one kind in the plugin catalog.
func completePlugins(kind wire.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		host, err := pluginhost.New(pluginhost.Options{Dir: c.PluginDir})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return host.Names(kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteMailPlatform makes the shell completion of --mail-platform offer the mail platforms of
// the plugin catalog, on cmd and its subcommands.
func CompleteMailPlatform(cmd *cobra.Command) {
	if cmd.LocalNonPersistentFlags().Lookup("mail-platform") != nil {
		_ = cmd.RegisterFlagCompletionFunc("mail-platform", completePlugins(wire.KindMail)) // fails only for a flag that does not exist
	}
	for _, sub := range cmd.Commands() {
		CompleteMailPlatform(sub)
	}
}
