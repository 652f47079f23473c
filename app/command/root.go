// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of tenantry.
//
//   - root.go: Root adds every command and sets the flag --output, which all commands share. Start
//     here.
//   - serve.go: `tenantry serve` and `tenantry migrate`.
//   - dev.go: `tenantry dev`, the sandbox.
//   - dev_plugin.go: a plugin under development in the sandbox.
//   - demo.go: `tenantry demo`, which runs the demo in a temporary sandbox.
//   - reference.go: the commands openapi, version and reference, which print the API document, the
//     version and the page of all settings.
//
// The commands of operators are in the packages operator, doctor and backup. The command
// `completion` is in the package cli.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/backup"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/doctor"
	"github.com/tenantry/tenantry/app/operator"
	"github.com/tenantry/tenantry/app/settings"
)

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := Root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		cli.PrintError(stderr, cmd, cli.WantsErrorAsJSON(cmd, args), err)
	}
	return cli.ExitCode(err)
}

// Root returns the command `tenantry` with all its subcommands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenantry",
		Short: "Outbound e-mail infrastructure on the tenants of a mail platform, by API",
		Long: "Outbound e-mail infrastructure on the tenants of a mail platform, by API.\n\n" +
			"To try it on this machine: tenantry dev. For production: tenantry serve. tenantry doctor shows what is missing.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringP("output", "o", "text", "text or json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError(err) })
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if format, _ := cmd.Flags().GetString("output"); format != "text" && format != "json" {
			return cli.UsageError(fmt.Errorf("--output must be text or json, not %q", format))
		}
		if readsSettings := cmd.Flags().Lookup("config") != nil || cmd.Name() == "dev"; readsSettings && cmd.Name() != "serve" {
			settings.WarnUnknownVariables(cmd.ErrOrStderr(), cli.WantsJSON(cmd))
		}
		if cmd.Name() == "dev" {
			return nil
		}
		return cli.RefuseEmptyFlagValues(cmd)
	}
	root.AddCommand(serveCommand(), devCommand(), demoCommand(), migrateCommand(), openapiCommand(), referenceCommand(), versionCommand(),
		doctor.Command(), backup.Command(), backup.RestoreCommand(), cli.CompletionCommand())
	root.AddCommand(operator.Commands()...)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cli.SetUpHelp(root)
	cli.RegisterCompletions(root)
	operator.CompleteMailPlatform(root)
	cli.CheckHelpArguments(root)
	cli.RefuseUnexpectedArguments(root)
	return root
}
