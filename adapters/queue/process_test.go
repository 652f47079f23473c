// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/ports/contract"
)

// The test's binary is also the process that is killed and paused.
const (
	processFolder   = "TENANTRY_TEST_QUEUE_FOLDER"
	processDatabase = "TENANTRY_TEST_QUEUE_DATABASE" // of River; none is Local
)

func TestMain(m *testing.M) {
	dir := os.Getenv(processFolder)
	if dir == "" {
		_ = flag.Set("test.parallel", "8") // most tests wait
		goleak.VerifyTestMain(m)
	}
	if err := process(context.Background(), dir, os.Getenv(processDatabase)); err != nil {
		panic(err)
	}
}

func process(ctx context.Context, dir, database string) error {
	o := forContract
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if database == "" {
		l, err := queue.NewLocal(o)
		if err != nil {
			return err
		}
		return contract.QueueProcess(ctx, dir, l)
	}
	r, err := queue.OpenRiver(ctx, database, o)
	if err != nil {
		return err
	}
	if err := contract.QueueProcess(ctx, dir, r); err != nil {
		return err
	}
	return r.Close(ctx)
}

func command(database string) func(dir string) *exec.Cmd {
	return func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), os.Args[0])
		cmd.Env = append(os.Environ(), processFolder+"="+dir, processDatabase+"="+database)
		return cmd
	}
}

func TestProcesses(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		contract.QueueProcesses(t, 1, func(*testing.T) func(string) *exec.Cmd { return command("") })
	})
	t.Run("river", func(t *testing.T) {
		contract.QueueProcesses(t, 2, func(t *testing.T) func(string) *exec.Cmd { return command(migrated(t)) })
	})
	t.Run("river without a sweep", func(t *testing.T) {
		url := migrated(t)
		contract.QueueOutlives(t, 2, openRiver(t, url, forContract), command(url))
	})
}
