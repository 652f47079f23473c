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
)

// callTime bounds one control call to a simulator.
const callTime = 30 * time.Second

// announced is the line by which a simulator says that it is ready.
type announced struct {
	Provider string            `json:"provider"`
	URL      string            `json:"url"`
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
	Control  []string          `json:"control"`
	Sending  map[string]any    `json:"sending"`
}

// simulator is one provider's stand-in.
type simulator struct {
	*process
	kind   string // of the plugin
	ready  announced
	client *http.Client
}

// startSimulators starts the simulators of all plugins that have one.
func (w *World) startSimulators(ctx context.Context, world string) error {
	list, err := catalog(w.options.PluginDir)
	if err != nil {
		return err
	}
	for _, p := range list {
		s, err := w.startSimulator(ctx, p, world)
		if errors.Is(err, errNoSimulator) {
			w.log.Debug("plugin without a simulator", "provider", p.Name)
			continue
		}
		if err != nil {
			return fmt.Errorf("simulator of %s: %w", p.Name, err)
		}
		w.simulators = append(w.simulators, s)
	}
	if w.clock.moved() {
		return w.tellTime(ctx, w.clock.Now())
	}
	return nil
}

func (w *World) startSimulator(ctx context.Context, p plugin, world string) (*simulator, error) {
	exe, err := p.binary(w.options.PluginDir)
	if err != nil {
		return nil, err
	}
	data, err := filepath.Abs(filepath.Join(w.options.DataDir, "simulators", p.Name))
	if err != nil {
		return nil, err
	}
	log := w.log.With("provider", p.Name)
	at := func(address string) (*process, []byte, error) {
		return launch(ctx, log, exe, "simulate", "--listen", address, "--data", data, "--world", world)
	}
	before := w.addresses.of(p.Name)
	proc, line, err := at(before)
	if err != nil && before != anyPort && ctx.Err() == nil {
		proc, line, err = at(anyPort) // the port may be somebody else's by now
	}
	if err != nil {
		return nil, err
	}
	s := &simulator{process: proc, kind: p.Kind, client: &http.Client{
		Timeout:   callTime,
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	if err = s.introduce(line, p.Name); err == nil {
		err = w.addresses.keep(p.Name, s.ready.URL)
	}
	if err != nil {
		proc.stop()
		return nil, err
	}
	return s, nil
}

// introduce reads the ready line.
func (s *simulator) introduce(line []byte, name string) error {
	if err := json.Unmarshal(line, &s.ready); err != nil {
		return fmt.Errorf("ready line: %w", err)
	}
	at, err := url.Parse(s.ready.URL)
	if err != nil {
		return fmt.Errorf("ready line: %w", err)
	}
	addr, err := netip.ParseAddr(at.Hostname())
	switch {
	case s.ready.Provider != name:
		return fmt.Errorf("it stands in for %q", s.ready.Provider)
	case at.Scheme != "http" || err != nil || !addr.IsLoopback():
		return errors.New("it does not listen on a loopback address")
	}
	return nil
}

// providers are the ids of all that the service knows, with a simulator or
// without.
var providers = []string{"microsoft365", "cloudflare", "powerdns", "rfc2136",
	"instantly", "plusvibe", "smartlead", "salesblink", "emailbison"}

// errNoneRuns: the provider is known, but nothing stands in for it here.
const errNoneRuns = later("no simulator of this provider runs here")

// simulator finds the stand-in of a provider.
func (w *World) simulator(provider string) (*simulator, error) {
	for _, s := range w.simulators {
		if s.ready.Provider == provider {
			return s, nil
		}
	}
	if slices.Contains(providers, provider) {
		return nil, errNoneRuns
	}
	return nil, missing("there is no such provider")
}

// answering finds the simulator that answers the control calls below a first
// path element.
func (w *World) answering(first string) (*simulator, bool) {
	for _, s := range w.simulators {
		if slices.Contains(s.ready.Control, first) {
			return s, true
		}
	}
	return nil, false
}

// ask makes a control call at the simulator.
func (s *simulator) ask(ctx context.Context, method, path string, body []byte) (relayed, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.ready.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		return relayed{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return relayed{}, fmt.Errorf("ask the simulator of %s: %w", s.ready.Provider, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return relayed{}, fmt.Errorf("ask the simulator of %s: %w", s.ready.Provider, err)
	}
	return relayed{resp.StatusCode, answer}, nil
}

// tell makes a control call that has no answer but success.
func (s *simulator) tell(ctx context.Context, method, path string, body []byte) error {
	answer, err := s.ask(ctx, method, path, body)
	if err == nil && answer.status != http.StatusOK {
		return fmt.Errorf("the simulator of %s answered %d", s.ready.Provider, answer.status)
	}
	return err
}
