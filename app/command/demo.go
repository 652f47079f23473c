// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/demo"
)

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the main workflow step by step, in a temporary sandbox",
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := os.MkdirTemp("", "tenantry-demo-")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(folder) }()
			return runDemo(cmd.Context(), folder, cmd.OutOrStdout())
		},
	}
}

// runDemo starts a sandbox in folder and runs the demo against its API.
func runDemo(ctx context.Context, folder string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	start := time.Now()
	_, _ = fmt.Fprintln(out, "This demo does what a customer does, from a new tenant to enforced send limits, over the public API.")
	_, _ = fmt.Fprintln(out, "The service, its plugins and its database are the real ones. The mail platform, the DNS provider and\nthe sending platform are simulators on loopback. Each request is shown with the status of its answer and the time that it took.")
	logs, err := os.Create(filepath.Join(folder, "log.json"))
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	c, err := devConfig(devOptions{data: folder, listen: "127.0.0.1:0", control: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	ready, ended := make(chan sandbox.Ready, 1), make(chan error, 1)
	serveCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		ended <- runSandbox(serveCtx, c, devOptions{data: folder}, telemetry.NewLogger(logs, slog.LevelInfo), func(r sandbox.Ready) { ready <- r })
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("the sandbox did not start: %w", cmp.Or(err, ctx.Err())) // err is nil if ctx ended
	case r := <-ready:
		err := demo.Run(ctx, out, r)
		stop()
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "\nDone in %s. To try the API yourself, start the sandbox with `make dev` and follow the tour in README.md.\n", time.Since(start).Round(100*time.Millisecond))
		return nil
	}
}
