// SPDX-License-Identifier: Apache-2.0

// Package sandbox simulates the environment of the service for `tenantry dev`: the DNS, the APIs of
// the providers, and the time. It also serves the control interface, through which tests and people
// change the simulation.
//
// A plugin can contain a simulator of its provider. The sandbox starts simulators as processes.
// They read and edit zones through the API in zonecalls.go.
//
//   - sandbox.go: Environment, Start and Close. Start here.
//   - seed.go: Open, which creates the first account and tenants, and its result, Ready.
//   - control.go: the calls of the control interface, and Services, the parts of the service that
//     they use.
//   - http.go: the HTTP server of the control interface and of zonecalls.go, its errors and JSON.
//   - accounts.go, tenants.go, dnsconnections.go, simulatorcalls.go: handlers of control calls.
//   - zonecalls.go: the API through which simulators read and edit zones, and the control calls
//     for zones.
//   - simulator.go: simulators and the plugin catalog. process.go: the process of a simulator.
//     process_linux.go and process_other.go: the attributes of this process on each operating
//     system.
//   - clock.go: the clock of the sandbox, which a restart keeps, and the call that moves it.
//   - state.go: the addresses and tenants that a restart keeps.
//
// Package zones is the DNS server. Package disk reads and writes the files of the state.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/secret"
)

// Options configures a sandbox.
type Options struct {
	// DataDir is the directory of all state. A sandbox continues from the state that it finds
	// there.
	DataDir string
	// PluginDir is the directory of the plugin binaries and their catalog.
	PluginDir string
	// MailPlatform is the name of the mail platform's plugin. The simulators of other mail
	// platforms do not run. If MailPlatform is empty, all simulators run.
	MailPlatform string
	// Plugin is the name of the plugin under development, or empty. If it is the plugin of a DNS
	// provider, Seed also creates zones that this provider hosts, and a connection to it.
	Plugin string
	// Seed makes the sandbox create zones, tenants and a DNS connection.
	Seed bool
	// ControlAddr is the loopback address of the control interface. If it is in use, empty or has
	// port 0, the control interface uses its address of the last start, or else a free port.
	ControlAddr string
	Log         *slog.Logger // nil discards the log
}

// Environment is the simulated environment of the service. It starts before the service, because
// the service needs the addresses of the simulators. It runs until Close is called.
type Environment struct {
	options   Options
	log       *slog.Logger
	clock     *Clock
	zones     *zones.Store
	dns       *zones.Server
	tenants   *tenantList
	addresses *addresses
	zonesURL  string // base URL of the API through which simulators edit zones
	servers   []*loopbackServer

	// moveClockMu is held while the clocks of the service and of the simulators are set, so that
	// all of them get the same time. It is locked before simulatorsMu.
	moveClockMu sync.Mutex

	simulatorsMu sync.RWMutex
	simulators   []*simulator // RestartSimulator replaces an element
}

// Start starts the DNS server and the simulators. If it fails, it stops everything that it has
// started.
func Start(ctx context.Context, o Options) (*Environment, error) {
	env := &Environment{options: o, log: o.Log}
	if env.log == nil {
		env.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := env.start(ctx); err != nil {
		return nil, errors.Join(err, env.Close())
	}
	return env, nil
}

func (env *Environment) start(ctx context.Context) error {
	err := os.MkdirAll(env.dataFile(), 0o700)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if env.clock, err = openClock(env.dataFile("clock.json")); err != nil {
		return err
	}
	if env.tenants, err = openTenantList(env.dataFile("tenants.json")); err != nil {
		return err
	}
	if env.addresses, err = openAddresses(env.dataFile("addresses.json")); err != nil {
		return err
	}
	if env.zones, err = zones.Open(env.dataFile("zones.json")); err != nil {
		return err
	}
	if env.options.Seed {
		if err := env.seedZones(); err != nil {
			return err
		}
	}
	if env.dns, err = zones.Listen(ctx, env.zones); err != nil {
		return err
	}
	url, err := env.listen(ctx, env.simulatorAPI())
	if err != nil {
		return err
	}
	return env.startSimulators(ctx, url)
}

// listenControl serves the control interface on Options.ControlAddr. If that address is in use or
// has port 0, it uses the address of the last start, or else a free port. Clients can therefore
// normally use the same address after a restart.
func (env *Environment) listenControl(ctx context.Context, h http.Handler) (string, error) {
	configured := cmp.Or(env.options.ControlAddr, anyPort)
	name := "control " + configured // the last address is stored separately for each ControlAddr
	candidates := []string{configured, env.addresses.lastAddress(name, configured)}
	if strings.HasSuffix(configured, ":0") {
		slices.Reverse(candidates)
	}
	url, err := env.listen(ctx, h, slices.Compact(candidates)...)
	if err != nil {
		return "", err
	}
	return url, env.addresses.save(name, url)
}

// listen serves h until Close is called. It listens on the first of the candidates that is not in
// use, or else on a free port of loopback. It returns the URL.
func (env *Environment) listen(ctx context.Context, h http.Handler, candidates ...string) (string, error) {
	for _, addr := range append(candidates, anyPort) {
		s, err := startServer(ctx, addr, h)
		switch {
		case err == nil:
			env.servers = append(env.servers, s)
			return s.url, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return "", err
		}
		env.log.InfoContext(ctx, "the address is in use, so a different one is used", "address", addr)
	}
	return "", errors.New("no port of loopback is free")
}

// Close stops the simulators and the servers, and waits until they have stopped. It stops them
// concurrently, because a call in progress may wait for a simulator that hangs.
func (env *Environment) Close() error {
	closeErrs := make([]error, len(env.servers))
	var wg sync.WaitGroup
	for _, s := range env.runningSimulators() {
		wg.Go(s.stop)
	}
	for i, s := range env.servers {
		wg.Go(func() { closeErrs[i] = s.close() })
	}
	wg.Wait()
	err := errors.Join(closeErrs...)
	if env.dns != nil {
		err = errors.Join(err, env.dns.Close())
	}
	return err
}

// Now returns the time of the service and the simulators.
func (env *Environment) Now() time.Time { return env.clock.Now() }

// DNSAddr returns the address of the DNS server. The server is both the resolver and the name
// server of the sandbox.
func (env *Environment) DNSAddr() string { return env.dns.Addr() }

// DNSPort returns the port of DNSAddr. All name servers of the sandbox share this port.
func (env *Environment) DNSPort() int { return env.dns.Port() }

// Settings returns the settings that connect each plugin to its simulator, keyed by provider.
func (env *Environment) Settings() map[string]map[string]string {
	byProvider := map[string]map[string]string{}
	for _, s := range env.runningSimulators() {
		byProvider[s.ready.Provider] = s.ready.Settings
	}
	return byProvider
}

// Secrets returns the operator's credentials at each simulator, keyed by provider.
func (env *Environment) Secrets() map[string]map[string]secret.Text {
	byProvider := map[string]map[string]secret.Text{}
	for _, s := range env.runningSimulators() {
		byProvider[s.ready.Provider] = map[string]secret.Text{}
		for name, value := range s.ready.Secrets {
			byProvider[s.ready.Provider][name] = secret.New(value)
		}
	}
	return byProvider
}

func (env *Environment) runningSimulators() []*simulator {
	env.simulatorsMu.RLock()
	defer env.simulatorsMu.RUnlock()
	return slices.Clone(env.simulators)
}

// dataFile returns a path in the directory of the sandbox.
func (env *Environment) dataFile(name ...string) string {
	return filepath.Join(append([]string{env.options.DataDir, "sandbox"}, name...)...)
}
