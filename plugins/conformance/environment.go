// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"maps"
	"strings"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// environment is what one check of Test runs in: a process of the plugin and, unless the check is
// safe on a real account, its simulator. No other check shares them.
type environment struct {
	Binary
	options     *Options
	description sdk.Description
	simulator   *Simulator    // nil before start
	process     *wire.Process // nil before start
}

// noSimulatorReason is the reason of the checks that are skipped without a simulator.
const noSimulatorReason = "the plugin has no simulator"

// start starts the simulator and the plugin. It skips the check if the plugin has no simulator.
func (e *environment) start(t T, world string) {
	t.Helper()
	e.startSimulator(t, world)
	e.process = e.Start(t)
}

func (e *environment) startSimulator(t T, world string) {
	t.Helper()
	var err error
	e.simulator, err = startSimulator(t, e.Path, world, e.exchange)
	if errors.Is(err, errNoSimulator) {
		t.Skipf(noSimulatorReason)
	}
	if e.simulator.Ready.Provider != e.description.Name {
		t.Errorf("the simulator's line names the provider %q, the plugin is %q", e.simulator.Ready.Provider, e.description.Name)
	}
}

// connection returns a connection to the simulator, or to the real provider, with the values of
// Options and the defaults of the fields. Values that are not fields of the plugin are dropped, as the
// host drops them.
func (e *environment) connection() sdk.Connection {
	settings, secrets := map[string]string{}, map[string]string{}
	if e.simulator != nil {
		maps.Copy(settings, e.simulator.Ready.Settings)
		maps.Copy(secrets, e.simulator.Ready.Secrets)
	}
	maps.Copy(settings, e.options.Settings)
	maps.Copy(secrets, e.options.Secrets)
	return e.join(settings, secrets)
}

// complete adds the values of Options and the defaults of the fields to a connection.
func (e *environment) complete(c sdk.Connection) sdk.Connection {
	settings, secrets := maps.Clone(e.options.Settings), map[string]string{}
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, c.Settings)
	for name, value := range c.Secrets {
		secrets[name] = value.Reveal()
	}
	return e.join(settings, secrets)
}

func (e *environment) join(settings, secrets map[string]string) sdk.Connection {
	given := sdk.Connection{Settings: settings, Secrets: map[string]secret.Text{}}
	for name, value := range secrets {
		given.Secrets[name] = secret.New(value)
	}
	return e.description.Join(given, given)
}

// guessed returns the connection with secrets that the provider does not know.
func (e *environment) guessed() sdk.Connection {
	c := e.connection()
	for name := range c.Secrets {
		c.Secrets[name] = secret.New("guessed-" + name)
	}
	return c
}

// connect implements Binary.Connect: the connection to the simulator, with a different base URL.
func (e *environment) connect(base string) sdk.Connection {
	c := e.connection()
	for name, value := range c.Settings {
		if rest, found := strings.CutPrefix(value, e.simulator.URL); found {
			c.Settings[name] = base + rest
		}
	}
	return c
}
