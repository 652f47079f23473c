// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/ports/contract/queuecontract"
)

// The test binary is also the worker process that the tests kill and pause. It runs as a worker
// process if TENANTRY_TEST_QUEUE_FOLDER is set.
const (
	folderEnv   = "TENANTRY_TEST_QUEUE_FOLDER"
	databaseEnv = "TENANTRY_TEST_QUEUE_DATABASE" // for River, empty for Local
)

func TestMain(m *testing.M) {
	dir := os.Getenv(folderEnv)
	if dir == "" {
		_ = flag.Set("test.parallel", "8") // most tests wait and use little CPU
		leaks.VerifyTestMain(m)
	}
	if err := runProcess(context.Background(), dir, os.Getenv(databaseEnv)); err != nil {
		panic(err)
	}
}

// runProcess makes this process a worker of the contract suite (package
// ports/contract/queuecontract). The worker uses the files in dir.
func runProcess(ctx context.Context, dir, database string) error {
	options := contractOptions
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if database == "" {
		l, err := queue.NewLocal(options)
		if err != nil {
			return err
		}
		return queuecontract.QueueProcess(ctx, dir, l)
	}
	r, err := queue.OpenRiver(ctx, database, options)
	if err != nil {
		return err
	}
	if err := queuecontract.QueueProcess(ctx, dir, r); err != nil {
		return err
	}
	return r.Close(ctx)
}

// workerCommand returns a function that creates the command of a worker process.
func workerCommand(database string) func(dir string) *exec.Cmd {
	return func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), os.Args[0])
		cmd.Env = append(os.Environ(), folderEnv+"="+dir, databaseEnv+"="+database)
		return cmd
	}
}

func TestQueueSurvivesKilledAndPausedProcesses(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		queuecontract.QueueProcesses(t, 1, func(*testing.T) func(string) *exec.Cmd { return workerCommand("") })
	})
	t.Run("river", func(t *testing.T) {
		queuecontract.QueueProcesses(t, 2, func(t *testing.T) func(string) *exec.Cmd { return workerCommand(newMigratedDatabase(t)) })
	})
	t.Run("river without a sweep", func(t *testing.T) {
		url := newMigratedDatabase(t)
		queuecontract.QueueOutlivesProcesses(t, 2, openRiver(t, url, contractOptions), workerCommand(url))
	})
}
