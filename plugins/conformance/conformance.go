// SPDX-License-Identifier: Apache-2.0

// Package conformance holds what the author of a plugin runs against the built
// binary: that it says who it is, that it ends when it should, that trouble
// with its provider has the right names, and that it keeps the port's contract.
package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// startTime and callTime are long enough for any machine: only a plugin that
// hangs reaches them.
const (
	startTime = 4 * time.Minute
	callTime  = 4 * time.Minute
)

// stopTime is how long a plugin may take to end by itself. The tests of this
// package shorten it for plugins that never do.
var stopTime = 4 * time.Minute

// Binary is the plugin under test.
type Binary struct {
	Path string
	// Connect makes a connection whose every base URL lies below baseURL,
	// complete with credentials that look right.
	Connect func(baseURL string) sdk.Connection
}

// Start starts the plugin as the host does, and ends it with the test. What it
// prints goes to the test's log.
func (b Binary) Start(t testing.TB) *wire.Process {
	t.Helper()
	path, err := filepath.Abs(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wire.Start(wire.Launch{
		Exe: path, Name: filepath.Base(path), Timeout: startTime,
		Line: func(line []byte) { _, _ = os.Stderr.Write(append(line, '\n')) },
	})
	if err != nil {
		t.Fatalf("start %s: %v", b.Path, err)
	}
	t.Cleanup(func() { p.Stop(stopTime) })
	return p
}

// Platform is a mail platform of a running plugin.
func Platform(p *wire.Process, c sdk.Connection) sdk.MailPlatform {
	return wire.Mail(func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	})
}

// check is one thing that a plugin has to do.
type check struct {
	name string
	run  func(t testing.TB, b Binary)
}

// Plugin runs the suites that every plugin passes.
func Plugin(t *testing.T, b Binary) {
	for _, c := range pluginChecks {
		t.Run(c.name, func(t *testing.T) { c.run(t, b) })
	}
}

// Mail runs the suites of a mail platform, those of Plugin among them. world
// makes a world, best from the plugin's simulator, whose Platform calls the
// running plugin through platform.
func Mail(t *testing.T, b Binary, world func(t testing.TB, platform func(sdk.Connection) sdk.MailPlatform) contract.World) {
	Plugin(t, b)
	t.Run("trouble", func(t *testing.T) {
		for _, c := range troubleChecks {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				c.run(t, b)
			})
		}
	})
	t.Run("the contract of the port", func(t *testing.T) {
		p := b.Start(t)
		w := world(t, func(c sdk.Connection) sdk.MailPlatform { return Platform(p, c) })
		contract.MailPlatform(t, func(testing.TB) contract.World { return w })
	})
}
