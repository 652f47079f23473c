// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/adapters/sandbox/disk"
	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// controlTimeout limits one control call to a simulator.
const controlTimeout = 30 * time.Second

// readyLine is the line that a simulator prints when it is ready.
type readyLine struct {
	Provider string            `json:"provider"`
	URL      string            `json:"url"`
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
	Control  []string          `json:"control"`
	Sending  map[string]any    `json:"sending"`
	// Zones maps the apex of each of the provider's own zones to its records.
	Zones map[string][]zones.Record `json:"zones"`
}

// simulator is the running simulator of one provider.
type simulator struct {
	*process
	files  *verified.Plugin
	kind   string // the plugin's kind
	ready  readyLine
	client *http.Client
}

func (s *simulator) stop() {
	s.process.stop()
	_ = s.files.Close() // a failure leaves copies of the plugin's files, which contain no secrets
}

// kindMail is the kind of mail platforms in the plugin catalog.
const kindMail = "mail"

// startSimulators starts the simulators of all plugins that have one. If Options.MailPlatform is
// set, it skips the simulators of all other mail platforms. zonesURL is the base URL of the API
// through which simulators read and edit zones.
func (env *Environment) startSimulators(ctx context.Context, zonesURL string) error {
	list, err := catalog(env.options.PluginDir)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Kind == kindMail && env.options.MailPlatform != "" && p.Name != env.options.MailPlatform {
			continue
		}
		s, err := env.startSimulator(ctx, p, zonesURL)
		if errors.Is(err, errNoSimulator) {
			env.log.Debug("plugin without a simulator", "provider", p.Name)
			continue
		}
		if err != nil {
			return fmt.Errorf("simulator of %s: %w", p.Name, err)
		}
		env.simulators = append(env.simulators, s)
	}
	env.zonesURL = zonesURL
	if env.clock.isMoved() {
		return env.setSimulatorClocks(ctx, env.clock.Now())
	}
	return nil
}

// RestartSimulator starts the simulator of a plugin again, after the plugin's file and the catalog
// have changed. The simulator keeps its data directory, and its address if the address is free.
// RestartSimulator does nothing if no simulator of the plugin was started, or if the catalog does
// not have the plugin. If it fails, the simulator may not run.
func (env *Environment) RestartSimulator(ctx context.Context, name string) error {
	env.moveClockMu.Lock()
	defer env.moveClockMu.Unlock()
	env.simulatorsMu.Lock()
	defer env.simulatorsMu.Unlock()
	running := slices.IndexFunc(env.simulators, func(s *simulator) bool { return s.ready.Provider == name })
	list, err := catalog(env.options.PluginDir)
	entry := slices.IndexFunc(list, func(p plugin) bool { return p.Name == name })
	if err != nil || running < 0 || entry < 0 {
		return err
	}
	env.simulators[running].stop()
	s, err := env.startSimulator(ctx, list[entry], env.zonesURL)
	if err != nil {
		return fmt.Errorf("simulator of %s: %w", name, err)
	}
	env.simulators[running] = s
	if !env.clock.isMoved() {
		return nil
	}
	body, err := json.Marshal(map[string]time.Time{"now": env.clock.Now()})
	if err != nil {
		return err
	}
	return s.mustControlCall(ctx, http.MethodPost, "/clock", body)
}

func (env *Environment) startSimulator(ctx context.Context, p plugin, zonesURL string) (*simulator, error) {
	// Open fails if the file does not have the checksum of the catalog.
	files, err := verified.Open(filepath.Join(env.options.PluginDir, filepath.Base(p.File)), p.SHA256)
	if err != nil {
		return nil, err
	}
	s, err := env.runSimulator(ctx, p, files.Path(), zonesURL)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s.files = files
	return s, nil
}

// runSimulator starts the program exe as the simulator of a plugin, and reads the simulator's ready
// line.
func (env *Environment) runSimulator(ctx context.Context, program plugin, exe, zonesURL string) (*simulator, error) {
	data, err := filepath.Abs(filepath.Join(env.options.DataDir, "simulators", program.Name))
	if err != nil {
		return nil, err
	}
	log := env.log.With("provider", program.Name)
	start := func(address string) (*process, []byte, error) {
		return startProcess(ctx, log, exe, program.File, "simulate", "--listen", address, "--data", data, "--world", zonesURL)
	}
	lastAddress := env.addresses.lastAddress(program.Name, anyPort)
	proc, line, err := start(lastAddress)
	if err != nil && lastAddress != anyPort && ctx.Err() == nil {
		proc, line, err = start(anyPort) // the last port may be in use by another process
	}
	if err != nil {
		return nil, err
	}
	s := &simulator{process: proc, kind: program.Kind, client: &http.Client{
		Timeout:   controlTimeout,
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	if err = s.parseReadyLine(line, program.Name); err == nil {
		err = errors.Join(env.addresses.save(program.Name, s.ready.URL), env.serveZones(s.ready.Zones))
	}
	if err != nil {
		proc.stop()
		return nil, err
	}
	return s, nil
}

// parseReadyLine decodes a ready line. It fails if the provider in the line is not name, or if the
// URL in the line is not on loopback.
func (s *simulator) parseReadyLine(line []byte, name string) error {
	if err := json.Unmarshal(line, &s.ready); err != nil {
		return fmt.Errorf("ready line: %w", err)
	}
	baseURL, err := url.Parse(s.ready.URL)
	if err != nil {
		return fmt.Errorf("ready line: %w", err)
	}
	addr, err := netip.ParseAddr(baseURL.Hostname())
	switch {
	case s.ready.Provider != name:
		return fmt.Errorf("it simulates %q", s.ready.Provider)
	case baseURL.Scheme != "http" || err != nil || !addr.IsLoopback():
		return errors.New("it does not listen on a loopback address")
	}
	return nil
}

// serveZones makes the DNS server answer for a provider's own zones.
func (env *Environment) serveZones(ownZones map[string][]zones.Record) error {
	for apex, records := range ownZones {
		if err := env.zones.ServeOwn(apex, records); err != nil {
			return fmt.Errorf("its zone %s: %w", apex, err)
		}
	}
	return nil
}

// errNotSimulated means that the catalog has a plugin of the provider, but this sandbox does not
// simulate it.
const errNotSimulated = notImplemented("no simulator of this provider runs here")

// simulatorOf returns the simulator of a provider.
func (env *Environment) simulatorOf(provider string) (*simulator, error) {
	for _, s := range env.runningSimulators() {
		if s.ready.Provider == provider {
			return s, nil
		}
	}
	list, err := catalog(env.options.PluginDir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(p plugin) bool { return p.Name == provider }) {
		return nil, errNotSimulated
	}
	return nil, notFound("there is no such provider")
}

// simulatorWithControl returns the simulator that handles the control calls whose path begins with
// the segment firstSegment.
func (env *Environment) simulatorWithControl(firstSegment string) (*simulator, bool) {
	for _, s := range env.runningSimulators() {
		if slices.Contains(s.ready.Control, firstSegment) {
			return s, true
		}
	}
	return nil, false
}

// controlCall sends a call to the control interface of the simulator.
func (s *simulator) controlCall(ctx context.Context, method, path string, body []byte) (rawResponse, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.ready.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		return rawResponse{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return rawResponse{}, fmt.Errorf("ask the simulator of %s: %w", s.ready.Provider, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return rawResponse{}, fmt.Errorf("ask the simulator of %s: %w", s.ready.Provider, err)
	}
	return rawResponse{resp.StatusCode, answer}, nil
}

// mustControlCall sends a control call. It fails when the status of the response is not 200.
func (s *simulator) mustControlCall(ctx context.Context, method, path string, body []byte) error {
	answer, err := s.controlCall(ctx, method, path, body)
	if err == nil && answer.status != http.StatusOK {
		return fmt.Errorf("the simulator of %s answered %d", s.ready.Provider, answer.status)
	}
	return err
}

// plugin is an entry of the plugin catalog.
type plugin struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// catalog returns the plugins in the catalog of a plugin directory.
func catalog(dir string) ([]plugin, error) {
	var list struct {
		Plugins []plugin `json:"plugins"`
	}
	if err := disk.Load(filepath.Join(dir, "catalog.json"), &list); err != nil {
		return nil, fmt.Errorf("plugin catalog: %w", err)
	}
	return list.Plugins, nil
}
