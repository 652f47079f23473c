// SPDX-License-Identifier: Apache-2.0

// Command tenantry serves the API. Its other subcommands are the tools of operators and plugin
// authors.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/command"
)

// version and commit are set by the linker.
var version, commit = "0.1.0-dev", "unknown"

// releasePattern matches the version of a release.
var releasePattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// versionOf returns the version of this program. linked is the value of the variable version.
// module is the version of the main module. It is a release if `go install MODULE@RELEASE` built
// this program.
func versionOf(linked, module string) string {
	if strings.HasSuffix(linked, "-dev") && releasePattern.MatchString(module) {
		return strings.TrimPrefix(module, "v")
	}
	return linked
}

func main() {
	cli.Version, cli.Commit = version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		cli.Version = versionOf(version, info.Main.Version)
	}
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
