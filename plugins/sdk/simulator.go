// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// simulatorFlags has the flags of `simulate`.
type simulatorFlags struct{ listen, dataDir, worldURL string }

// runSimulator runs the command `simulate`. It serves the simulator until SIGTERM, SIGINT or the
// end of standard input (see watchStdin), and returns the exit code.
func runSimulator(p Plugin, args []string, stdout, stderr io.Writer) int {
	flags, err := parseSimulatorFlags(args, stderr)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "simulate:", err)
		return exitUsage
	}
	if p.Simulator == nil {
		_, _ = fmt.Fprintf(stderr, "simulate: %s has no simulator\n", p.Describe.Name)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-watchStdin(os.Stdin)
		cancel()
	}()
	if err := serveSimulator(ctx, p, flags, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "simulate:", err)
		return exitFailed
	}
	return exitDone
}

func parseSimulatorFlags(args []string, stderr io.Writer) (simulatorFlags, error) {
	var f simulatorFlags
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback `address` to listen on")
	flags.StringVar(&f.dataDir, "data", "", "`folder` of the simulator's state")
	flags.StringVar(&f.worldURL, "world", "", "base `URL` of the sandbox's HTTP interface for simulators")
	if err := flags.Parse(args); err != nil {
		return f, err
	}
	if flags.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if f.dataDir == "" {
		return f, errors.New("--data is missing")
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return f, fmt.Errorf("--listen: %w", err)
	}
	// The control interface has no authentication.
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return f, fmt.Errorf("--listen %s: a simulator listens on a loopback address only", f.listen)
	}
	return f, nil
}

func serveSimulator(ctx context.Context, p Plugin, f simulatorFlags, stdout, stderr io.Writer) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	handler, ready, err := p.Simulator(simulate.Options{
		URL:     cmp.Or(os.Getenv(simulate.URLVariable), "http://"+ln.Addr().String()),
		DataDir: f.dataDir, World: f.worldURL, Log: stderr,
	})
	if err != nil {
		return err
	}
	ready.Address = ln.Addr().String()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	serveErr := make(chan error, 1)
	go func() { serveErr <- server.Serve(ln) }()
	if err := json.NewEncoder(stdout).Encode(ready); err != nil {
		return fmt.Errorf("print the ready line: %w", err)
	}
	select {
	case err := <-serveErr:
		return err
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(shutdownCtx) != nil {
		_ = server.Close()
	}
	return nil
}
