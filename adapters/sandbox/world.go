// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the outside world of `tenantry dev`: a DNS server, the
// simulators of the bundled plugins, a clock that can be moved, and the
// control interface by which tests and people arrange all that.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/secret"
)

// Options says where the world lives.
type Options struct {
	// DataDir holds everything that is kept; a world started again on it
	// goes on.
	DataDir string
	// PluginDir holds the plugin binaries and their catalog.
	PluginDir string
	// Seed fills the world with zones and tenants.
	Seed bool
	Log  *slog.Logger
}

// World is the outside world. It starts before the services, which need its
// addresses, and stays until Close.
type World struct {
	options    Options
	log        *slog.Logger
	clock      *Clock
	zones      *zones.Store
	dns        *zones.Server
	tenants    *directory
	addresses  *addresses
	simulators []*simulator
	sites      []*site
}

// StartWorld starts the DNS server and the simulators. After an error nothing
// is left running.
func StartWorld(ctx context.Context, o Options) (*World, error) {
	w := &World{options: o, log: o.Log}
	if w.log == nil {
		w.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *World) start(ctx context.Context) error {
	err := os.MkdirAll(w.kept(), 0o700)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if w.clock, err = openClock(w.kept("clock.json")); err != nil {
		return err
	}
	if w.tenants, err = openDirectory(w.kept("tenants.json")); err != nil {
		return err
	}
	if w.addresses, err = openAddresses(w.kept("addresses.json")); err != nil {
		return err
	}
	if w.zones, err = zones.Open(w.kept("zones.json")); err != nil {
		return err
	}
	if w.options.Seed {
		if err := w.seedZones(); err != nil {
			return err
		}
	}
	if w.dns, err = zones.Listen(ctx, w.zones); err != nil {
		return err
	}
	url, err := w.open(ctx, w.surroundings())
	if err != nil {
		return err
	}
	return w.startSimulators(ctx, url)
}

// open serves h on a loopback port until the world ends.
func (w *World) open(ctx context.Context, h http.Handler) (string, error) {
	s, err := openSite(ctx, h)
	if err != nil {
		return "", err
	}
	w.sites = append(w.sites, s)
	return s.url, nil
}

// Close ends everything that the world has started and waits for it. A call
// under way may wait for a simulator that does not run, so all end at a time.
func (w *World) Close() error {
	closed := make([]error, len(w.sites))
	var wg sync.WaitGroup
	for _, s := range w.simulators {
		wg.Go(s.stop)
	}
	for i, s := range w.sites {
		wg.Go(func() { closed[i] = s.close() })
	}
	wg.Wait()
	err := errors.Join(closed...)
	if w.dns != nil {
		err = errors.Join(err, w.dns.Close())
	}
	return err
}

// Now is the time of service and simulators.
func (w *World) Now() time.Time { return w.clock.Now() }

// DNSAddr is the address of the DNS server: resolver and name server in one.
func (w *World) DNSAddr() string { return w.dns.Addr() }

// DNSPort is the port of DNSAddr, on which all name servers of the world are.
func (w *World) DNSPort() int { return w.dns.Port() }

// Settings points each provider's plugin at its simulator.
func (w *World) Settings() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, s := range w.simulators {
		out[s.ready.Provider] = s.ready.Settings
	}
	return out
}

// Secrets are the operator's credentials at each simulator.
func (w *World) Secrets() map[string]map[string]secret.Text {
	out := map[string]map[string]secret.Text{}
	for _, s := range w.simulators {
		out[s.ready.Provider] = map[string]secret.Text{}
		for name, value := range s.ready.Secrets {
			out[s.ready.Provider][name] = secret.New(value)
		}
	}
	return out
}

// kept is a file of the sandbox's own.
func (w *World) kept(name ...string) string {
	return filepath.Join(append([]string{w.options.DataDir, "sandbox"}, name...)...)
}
