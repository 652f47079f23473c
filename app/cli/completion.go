// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/core/access"
)

// flagValues maps a flag to the values that shells offer for it. Shells offer no accounts and
// tenants, because a completion should not open the database.
var flagValues = map[string][]string{
	"output":    {"text", "json"},
	"log-level": {"debug", "info", "warn", "error"},
	"form":      {"live", "trial"},
	"plan":      planNames(),
	"limits":    {"on", "off"},
}

func planNames() []string {
	var names []string
	for _, plan := range access.Plans() {
		names = append(names, plan.Name)
	}
	return names
}

// RegisterCompletions registers the values of flags for shell completion, on cmd and its
// subcommands.
func RegisterCompletions(cmd *cobra.Command) {
	for name, values := range flagValues {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	if cmd.Args == nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		RegisterCompletions(sub)
	}
}

// CompletionCommand returns the command `tenantry completion`, which prints the completion script
// of a shell.
func CompletionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print the completion script of a shell",
		Long: "Prints the script that lets a shell complete commands, flags and values. To load it:\n\n" +
			"  bash        source <(tenantry completion bash)\n" +
			"  zsh         source <(tenantry completion zsh)\n" +
			"  fish        tenantry completion fish | source\n" +
			"  powershell  tenantry completion powershell | Out-String | Invoke-Expression",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("completion requires one shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}
