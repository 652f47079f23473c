// SPDX-License-Identifier: Apache-2.0

// Command tenantry serves the API, and is the operator's tool for everything
// around it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/command"
)

// version and commit are set by the linker in `make build`.
var version, commit = "0.1.0-dev", "unknown"

func main() {
	cli.Version, cli.Commit = version, commit
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
	os.Exit(command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
