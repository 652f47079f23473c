// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// environment is the environment of one check of Test, with the check's own processes of the plugin
// and of the simulator. A check that runs against a real account has no simulator.
type environment struct {
	Binary
	options     *Options
	description sdk.Description
	simulator   *Simulator    // nil until it is started, and for a real account
	process     *wire.Process // nil until it is started
}

// noSimulatorReason is the reason for skipping a check if the plugin has no simulator.
const noSimulatorReason = "the plugin has no simulator"

// start starts the simulator and the plugin. It skips the check if the plugin has no simulator.
func (e *environment) start(t T, zonesURL string) {
	t.Helper()
	e.startSimulator(t, zonesURL)
	e.process = e.Start(t)
}

func (e *environment) startSimulator(t T, zonesURL string) {
	t.Helper()
	var err error
	e.simulator, err = startSimulator(t, e.Path, zonesURL, e.exchange)
	if errors.Is(err, errNoSimulator) {
		t.Skipf(noSimulatorReason)
	}
	if e.simulator.Ready.Provider != e.description.Name {
		t.Errorf("the ready line of the simulator names the provider %q, but the name of the plugin is %q", e.simulator.Ready.Provider, e.description.Name)
	}
	for name, value := range e.simulator.Ready.Settings {
		if replacement, replaced := e.options.Settings[name]; replaced && replacement != value && e.simulator.hasAddressIn(value) {
			t.Fatalf("the setting %s must have the simulator's address, but the options set it to %q; omit the setting, or test that provider with --against real", name, replacement)
		}
	}
}

// hasAddressIn reports whether the value of a setting contains the address of the simulator, or the
// address of the proxy in front of the simulator. An address is a host and port.
func (s *Simulator) hasAddressIn(value string) bool {
	hosts := []string{s.Ready.Address}
	for _, raw := range []string{s.URL, s.Ready.URL} {
		if u, err := url.Parse(raw); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return slices.ContainsFunc(hosts, func(host string) bool { return host != "" && strings.Contains(value, host) })
}

// connection returns a connection to the simulator, or to the real provider, with the values of
// Options and the defaults of the fields. Values of Options replace values of the simulator. Like
// the host, it omits values that are not fields of the plugin.
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

// withDefaults adds the settings of Options and the defaults of the fields to a connection. The
// settings of the connection itself take precedence.
func (e *environment) withDefaults(c sdk.Connection) sdk.Connection {
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
	values := sdk.Connection{Settings: settings, Secrets: map[string]secret.Text{}}
	for name, value := range secrets {
		values.Secrets[name] = secret.New(value)
	}
	return e.description.Join(values, values)
}

// withGuessedSecrets replaces the secrets of c by secrets that the provider does not accept, and
// returns c. A secret in base64 is replaced by a different secret in base64, so that the plugin can
// still decode it.
func withGuessedSecrets(c sdk.Connection) sdk.Connection {
	for name, value := range c.Secrets {
		guess := "guessed-" + name
		if _, err := base64.StdEncoding.DecodeString(value.Reveal()); err == nil {
			guess = base64.StdEncoding.EncodeToString([]byte(guess))
		}
		c.Secrets[name] = secret.New(guess)
	}
	return c
}

// customerConnection returns the connection of a customer. It begins with the result of connection.
// If the simulator issues settings and secrets for each customer, they replace those of the same
// name.
func (e *environment) customerConnection(t T) sdk.Connection {
	t.Helper()
	c := e.connection()
	status, answer := e.simulator.callControl(t, http.MethodPost, "/credentials", map[string]string{"customer": "suite"})
	if status != http.StatusOK {
		return c
	}
	var issued struct{ Settings, Secrets map[string]string }
	if err := json.Unmarshal(answer, &issued); err != nil {
		t.Fatalf("the answer of the simulator to POST /_control/credentials is not a connection")
	}
	maps.Copy(c.Settings, issued.Settings)
	for name, value := range issued.Secrets {
		c.Secrets[name] = secret.New(value)
	}
	return c
}

// connect returns the connection of a customer with base as the URL of the provider. It is used as
// Binary.Connect.
func (e *environment) connect(t T, base string) sdk.Connection {
	t.Helper()
	c := e.customerConnection(t)
	for name, value := range c.Settings {
		if rest, found := strings.CutPrefix(value, e.simulator.URL); found {
			c.Settings[name] = base + rest
		} else if !e.speaksHTTP() && isLoopbackAddress(value) {
			c.Settings[name] = strings.TrimPrefix(base, "http://")
		}
	}
	return c
}
