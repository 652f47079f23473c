// SPDX-License-Identifier: Apache-2.0

// Command withservers starts a private PostgreSQL server for tests, and runs a command that uses
// it:
//
//	go run ./.ci/withservers [-memory] -- go test ./...
//
// The server stops when the command exits, and also when withservers itself crashes. With -memory
// the files of the server are in memory, if there is enough memory. This is faster, because tests
// create and drop many tables, and each table has files.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	env := os.Environ() // for the command, which does not get the TMPDIR that useMemory sets
	if len(args) > 0 && args[0] == "-memory" {
		args = args[1:]
		if err := useMemory(); err != nil {
			return 1, err
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2, errors.New("usage: withservers [-memory] -- command [argument…]")
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	postgres, err := testserver.StartPostgres(context.Background())
	if err != nil {
		return 1, err
	}
	defer postgres.Stop()
	return runCommand(args, append(env, testserver.PostgresEnv+"="+postgres.URL), signals)
}

// sharedMemory is the folder of a file system in memory. neededBytes is how many bytes must be free
// there. The tests write less than 1 GB. The rest is a reserve, because the tests themselves need
// memory too.
const sharedMemory, neededBytes = "/dev/shm", 4 << 30

// useMemory makes sharedMemory the folder for temporary files of this process, if it has enough
// space.
func useMemory() error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < neededBytes {
		return nil // the files stay on the disk
	}
	return os.Setenv("TMPDIR", sharedMemory)
}

// runCommand runs the command and passes on the signals that this process receives. It returns the
// exit code of the command, or 1 if a signal killed the command.
func runCommand(args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-done:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return max(1, exit.ExitCode()), nil // ExitCode returns -1 if a signal killed the command
			}
			if err != nil {
				return 1, err
			}
			return 0, nil
		}
	}
}
