// SPDX-License-Identifier: Apache-2.0

// Command tenantry serves the API, and is the operator's tool for everything
// around it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals
		_, _ = fmt.Fprintln(os.Stderr, "stopped at once by a second signal")
		os.Exit(cli.ExitRefused)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run does everything but signals and exit; tests call it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		cli.PrintError(stderr, cmd, cli.AskedForJSON(cmd, args), err)
	}
	return cli.ExitCode(err)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenantry",
		Short: "Outbound e-mail infrastructure on Microsoft 365 tenants, by API",
		Long: "Outbound e-mail infrastructure on Microsoft 365 tenants, by API.\n\n" +
			"To try it on this machine: tenantry dev. For real: tenantry serve, and tenantry doctor says what is missing.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringP("output", "o", "text", "text or json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage(err) })
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if format, _ := cmd.Flags().GetString("output"); format != "text" && format != "json" {
			return cli.Usage(fmt.Errorf("--output is text or json, not %q", format))
		}
		if reads := cmd.Flags().Lookup("config") != nil || cmd.Name() == "dev"; reads && cmd.Name() != "serve" {
			settings.WarnUnknownVariables(cmd.ErrOrStderr(), cli.JSONWanted(cmd))
		}
		if cmd.Name() == "dev" {
			return nil
		}
		return cli.RefuseEmpty(cmd)
	}
	root.AddCommand(serveCommand(), devCommand(), demoCommand(), migrateCommand(), openapiCommand(), accountCommand(), keyCommand(),
		tenantCommand(), dnsConnectionCommand(), auditCommand(), pluginCommand(), keysetCommand(), backupCommand(), restoreCommand(), configCommand(), doctorCommand(), cli.CompletionCommand(), versionCommand(), referenceCommand())
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cli.Explain(root)
	cli.Complete(root)
	cli.CheckHelp(root)
	cli.RefuseArguments(root)
	return root
}
