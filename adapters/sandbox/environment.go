// SPDX-License-Identifier: Apache-2.0

// Package sandbox simulates everything outside the service for `tenantry dev`: the DNS, the APIs of
// the providers, and the time. It also serves the control interface, by which tests and people
// change the simulation.
//
// Environment is that simulated environment. The bundled plugins bring the simulators of their
// providers; sandbox starts them as processes. They read and edit zones through the API in
// zonecalls.go.
//
//   - environment.go: Environment, Start and Close. Start here.
//   - seed.go: Open, which creates the first account and tenants, and Ready, what it returns.
//   - control.go: the control interface: its calls and what they need of the service. http.go has
//     its server, errors and JSON.
//   - accounts.go, tenants.go, dnsconnections.go, zonecalls.go, simulatorcalls.go: the calls by
//     subject.
//   - consent.go: connecting a tenant as its administrator. browser.go: the browser for it.
//   - simulator.go: simulators and the plugin catalog. process.go: the process of a simulator.
//   - state.go: the clock, addresses and tenants that a restart keeps.
//
// Package zones is the DNS server, package disk stores the state.
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

// Options configures a sandbox.
type Options struct {
	// DataDir is the directory of all state. A sandbox that is started with it again continues from
	// that state.
	DataDir string
	// PluginDir is the directory of the plugin binaries and their catalog.
	PluginDir string
	// Seed creates zones and tenants.
	Seed bool
	Log  *slog.Logger
}

// Environment is the simulated environment of the service. It starts before the service, which
// needs its addresses, and runs until Close.
type Environment struct {
	options    Options
	log        *slog.Logger
	clock      *Clock
	zones      *zones.Store
	dns        *zones.Server
	tenants    *tenantList
	addresses  *addresses
	simulators []*simulator
	servers    []*loopbackServer
}

// Start starts the DNS server and the simulators. When it fails, it has stopped everything
// that it started.
func Start(ctx context.Context, o Options) (*Environment, error) {
	w := &Environment{options: o, log: o.Log}
	if w.log == nil {
		w.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Environment) start(ctx context.Context) error {
	err := os.MkdirAll(w.dataFile(), 0o700)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if w.clock, err = openClock(w.dataFile("clock.json")); err != nil {
		return err
	}
	if w.tenants, err = openTenantList(w.dataFile("tenants.json")); err != nil {
		return err
	}
	if w.addresses, err = openAddresses(w.dataFile("addresses.json")); err != nil {
		return err
	}
	if w.zones, err = zones.Open(w.dataFile("zones.json")); err != nil {
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
	url, err := w.listen(ctx, w.simulatorAPI())
	if err != nil {
		return err
	}
	return w.startSimulators(ctx, url)
}

// listen serves h on a loopback port until Close, and returns its URL.
func (w *Environment) listen(ctx context.Context, h http.Handler) (string, error) {
	s, err := startServer(ctx, h)
	if err != nil {
		return "", err
	}
	w.servers = append(w.servers, s)
	return s.url, nil
}

// Close stops everything that the sandbox has started and waits for it. It stops all parts
// concurrently, because a running call may wait for a simulator that hangs.
func (w *Environment) Close() error {
	closed := make([]error, len(w.servers))
	var wg sync.WaitGroup
	for _, s := range w.simulators {
		wg.Go(s.stop)
	}
	for i, s := range w.servers {
		wg.Go(func() { closed[i] = s.close() })
	}
	wg.Wait()
	err := errors.Join(closed...)
	if w.dns != nil {
		err = errors.Join(err, w.dns.Close())
	}
	return err
}

// Now returns the time of the service and the simulators.
func (w *Environment) Now() time.Time { return w.clock.Now() }

// DNSAddr returns the address of the DNS server, which is both resolver and name server.
func (w *Environment) DNSAddr() string { return w.dns.Addr() }

// DNSPort returns the port of DNSAddr, which all name servers of the sandbox share.
func (w *Environment) DNSPort() int { return w.dns.Port() }

// Settings returns the settings that connect each plugin to its simulator, by provider.
func (w *Environment) Settings() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, s := range w.simulators {
		out[s.ready.Provider] = s.ready.Settings
	}
	return out
}

// Secrets returns the operator's credentials at each simulator, by provider.
func (w *Environment) Secrets() map[string]map[string]secret.Text {
	out := map[string]map[string]secret.Text{}
	for _, s := range w.simulators {
		out[s.ready.Provider] = map[string]secret.Text{}
		for name, value := range s.ready.Secrets {
			out[s.ready.Provider][name] = secret.New(value)
		}
	}
	return out
}

// dataFile returns a path in the directory of the sandbox.
func (w *Environment) dataFile(name ...string) string {
	return filepath.Join(append([]string{w.options.DataDir, "sandbox"}, name...)...)
}
