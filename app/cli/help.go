// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SettingAnnotation is the key of the annotation of --config and of the flags of settings.
const SettingAnnotation = "tenantry_setting"

// The groups of commands in the help. A command that the map groupOf does not contain is in
// groupOperate.
const (
	groupServe   = "serve"
	groupOperate = "operate"
	groupDevelop = "develop"
)

var groupOf = map[string]string{
	"serve": groupServe, "migrate": groupServe,
	"dev": groupDevelop, "demo": groupDevelop, "openapi": groupDevelop,
	"version": "", "help": "", "completion": "",
}

// SetUpHelp groups the commands of root and sets the format of their help.
func SetUpHelp(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: groupServe, Title: "Serve"},
		&cobra.Group{ID: groupOperate, Title: "Operate"},
		&cobra.Group{ID: groupDevelop, Title: "Develop"},
	)
	for _, cmd := range root.Commands() {
		group, listed := groupOf[cmd.Name()]
		if !listed {
			group = groupOperate
		}
		cmd.GroupID = group
	}
	root.SetUsageFunc(printUsage)
}

// printUsage prints the usage of a command. Many commands have a flag for each setting, but only
// the usage of serve lists these flags.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	if cmd.HasAvailableSubCommands() {
		_, _ = fmt.Fprintf(w, "Usage:\n  %s COMMAND\n", cmd.CommandPath())
		printSubcommands(w, cmd)
	} else {
		_, _ = fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	}
	others, settings := SplitFlags(cmd)
	if others.HasAvailableFlags() {
		_, _ = fmt.Fprintf(w, "\nFlags:\n%s", others.FlagUsages())
	}
	switch {
	case !settings.HasAvailableFlags():
	case cmd.Name() == "serve":
		_, _ = fmt.Fprintf(w, "\nSettings, also in tenantry.yaml (names with _) and as TENANTRY_… variables:\n%s", settings.FlagUsages())
	default:
		_, _ = fmt.Fprintln(w, "\nSettings are flags too (--database-url, …): tenantry serve --help lists them, tenantry config shows their values.")
	}
	return nil
}

// printSubcommands prints the subcommands of a command, group by group.
func printSubcommands(w io.Writer, cmd *cobra.Command) {
	for _, group := range append(cmd.Groups(), &cobra.Group{Title: "Commands"}) {
		var lines strings.Builder
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				_, _ = fmt.Fprintf(&lines, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		title := group.Title
		if len(cmd.Groups()) > 0 && group.ID == "" {
			title = "More"
		}
		if lines.Len() > 0 {
			_, _ = fmt.Fprintf(w, "\n%s:\n%s", title, lines.String())
		}
	}
}

// SplitFlags returns the flags of a command, with the inherited ones, in two sets. The set settings
// has --config and the flags of settings, and the set others has all other flags.
func SplitFlags(cmd *cobra.Command) (others, settings *pflag.FlagSet) {
	others, settings = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(flag *pflag.Flag) {
		if _, isSetting := flag.Annotations[SettingAnnotation]; isSetting {
			settings.AddFlag(flag)
			return
		}
		others.AddFlag(flag)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return others, settings
}
