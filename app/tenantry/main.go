// SPDX-License-Identifier: Apache-2.0

// Command tenantry serves the API, and is the operator's tool for everything
// around it.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
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
		os.Exit(exitRefused)
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
		printError(stderr, cmd, askedForJSON(cmd, args), err)
	}
	return exitCode(err)
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
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if format, _ := cmd.Flags().GetString("output"); format != "text" && format != "json" {
			return usageError{fmt.Errorf("--output is text or json, not %q", format)}
		}
		if settings := cmd.Flags().Lookup("config") != nil || cmd.Name() == "dev"; settings && cmd.Name() != "serve" {
			warn(cmd.ErrOrStderr(), jsonWanted(cmd))
		}
		if cmd.Name() == "dev" {
			return nil
		}
		return notEmpty(cmd)
	}
	root.AddCommand(serveCommand(), devCommand(), demoCommand(), migrateCommand(), openapiCommand(), accountCommand(), keyCommand(),
		tenantCommand(), dnsConnectionCommand(), auditCommand(), pluginCommand(), keysetCommand(), backupCommand(), restoreCommand(), configCommand(), doctorCommand(), completionCommand(), versionCommand(), referenceCommand())
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	explained(root)
	completed(root)
	helped(root)
	strict(root)
	return root
}

func logLevel(name string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(name))); err != nil {
		return level, fmt.Errorf("log_level: %q is not debug, info, warn or error", name)
	}
	return level, nil
}
