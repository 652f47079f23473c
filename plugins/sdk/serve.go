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

// flushTime is how long the last spans may take on their way out.
const flushTime = time.Second

// Exit codes of a plugin binary.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Serve is a plugin's main: it answers the host that started the process, or
// one of the commands `describe`, `simulate` and `--version` when a person or
// a build did. It does not return.
func Serve(p Plugin) {
	if len(os.Args) < 2 && wire.Hosted() {
		os.Exit(serveHost(p))
	}
	os.Exit(command(p, os.Args[1:], os.Stdout, os.Stderr))
}

// serveHost ends when the host says stop, and when the host is gone.
func serveHost(p Plugin) int {
	// Whoever stops a service often tells all its processes. A plugin is
	// needed until the host's last request is answered.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	log := newLog(os.Stderr, p.Describe.Name)
	flush := startTelemetry(p.Describe, log)
	end := func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		flush(ctx)
	}
	go func() {
		<-lifeline(os.Stdin)
		end()
		os.Exit(exitDone)
	}()
	wire.Serve(wire.Served{Describe: p.Describe, Mail: p.Mail, DNS: p.DNS, Sending: p.Sending, Log: log})
	end()
	return exitDone
}

func command(p Plugin, args []string, stdout, stderr io.Writer) int {
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
	if err := out.Encode(descriptionJSON(d)); err != nil {
		_, _ = fmt.Fprintln(stderr, "write description:", err)
		return exitFailed
	}
	return exitDone
}
