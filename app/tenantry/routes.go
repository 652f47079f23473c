// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// providerOptions are what the providers to which accounts bring credentials of
// their own need besides the settings.
type providerOptions struct {
	host     *pluginhost.Host
	counters ports.Limiter       // of the providers' budgets
	prints   ports.Fingerprinter // of credentials, which budgets are counted by
	log      *slog.Logger
	secrets  map[string]map[string]secret.Text // the sandbox's own
}

// operator is the operator's part of the providers' connections.
func (o providerOptions) operator(c settings.Config) connections {
	return connections{settings: c.Providers, secrets: o.secrets, files: &credentialFiles{log: o.log}, describe: o.host.Describe}
}

// route is what the calls of one provider go through on their way to its
// plugin, whichever credential they use.
type route[M, G any] struct {
	calls    M
	circuits G
}

// routesOf are those of all providers of a kind.
func routesOf[M, G any](c settings.Config, o providerOptions, kind wire.Kind, measure func(telemetry.CallOptions) (M, error), guard func(breaker.Options) G) (map[string]route[M, G], error) {
	routes := map[string]route[M, G]{}
	for _, name := range o.host.Names(kind) {
		calls, err := measure(telemetry.CallOptions{Provider: name, Log: o.log, CustomerData: c.TraceCustomerData})
		if err != nil {
			return nil, err
		}
		routes[name] = route[M, G]{calls, guard(breaker.Options{
			Provider: name, Log: o.log, Open: c.CircuitOpen, Budget: budgets{name, o.host.Describe, o.counters}.spend,
		})}
	}
	return routes, nil
}

// joined makes a provider's connection of the operator's part and an account's,
// whenever it is asked: the operator's files may have changed.
func (c connections) joined(provider string, account wire.Connection, describe func(context.Context, string) (wire.Description, error)) func(context.Context) (wire.Connection, error) {
	return func(ctx context.Context) (wire.Connection, error) {
		operator, err := c.of(ctx, provider)
		if err != nil {
			return wire.Connection{}, err
		}
		about, err := describe(ctx, provider)
		if err != nil {
			return wire.Connection{}, err
		}
		return about.Join(operator, account), nil
	}
}
