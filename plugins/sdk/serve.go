// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/plugins/wire"
)

// flushTimeout limits the export of the last spans before the process exits.
const flushTimeout = time.Second

// Exit codes of a plugin binary.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Serve is the main function of a plugin. If the host has started the process, Serve answers the
// host's calls. With an argument it executes one of the commands `describe`, `simulate` and
// `--version`. Serve does not return. The process exits with 0, with 1 after a failure, or with 2
// after a usage error.
func Serve(p Plugin) {
	if len(os.Args) < 2 && wire.Hosted() {
		os.Exit(serveHost(p))
	}
	os.Exit(runCommand(p, os.Args[1:], os.Stdout, os.Stderr))
}

// serveHost answers the calls of the host until the host exits or asks the plugin to stop. It
// returns the exit code.
func serveHost(plugin Plugin) int {
	// Service managers often signal all processes of a service. The plugin ignores these signals,
	// because the host needs it for its last requests, and then ends it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	log := newLog(os.Stderr, plugin.Describe.Name)
	flush := startTelemetry(plugin.Describe, log)
	flushSpans := func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		flush(ctx)
	}
	go func() {
		<-watchStdin(os.Stdin)
		flushSpans()
		os.Exit(exitDone)
	}()
	config := wire.PluginConfig{Describe: plugin.Describe, Mail: plugin.Mail, DNS: plugin.DNS, Sending: plugin.Sending, Log: log}
	if plugin.Waits != nil {
		config.ShareWaits = plugin.Waits.Share
	}
	wire.Serve(config)
	flushSpans()
	return exitDone
}

func runCommand(p Plugin, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "describe":
		return describe(p.Describe, stdout, stderr)
	case "simulate":
		return runSimulator(p, args[1:], stdout, stderr)
	case "--version", "version":
		_, _ = fmt.Fprintln(stdout, p.Describe.Name, p.Describe.Version)
		return exitDone
	default:
		name := filepath.Base(os.Args[0])
		_, _ = fmt.Fprintf(stderr, "%s is a plugin of tenantry, which starts it when it is needed.\n"+
			"By hand: %s describe | simulate --listen 127.0.0.1:0 --data DIR | --version\n", name, name)
		return exitUsage
	}
}

func describe(d Description, stdout, stderr io.Writer) int {
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(wire.DocOf(d)); err != nil {
		_, _ = fmt.Fprintln(stderr, "write description:", err)
		return exitFailed
	}
	return exitDone
}

// watchStdin returns a channel that is closed at the end of standard input. The parent process
// keeps the other side of the pipe open, and if the parent is killed, the kernel closes that side.
// If standard input is not a pipe or a socket, the channel is never closed.
func watchStdin(stdin *os.File) <-chan struct{} {
	closed := make(chan struct{})
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return closed
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(closed)
	}()
	return closed
}
