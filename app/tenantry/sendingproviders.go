// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// The fields of every sending platform's credential.
const (
	sendingKey       = "api_key"
	sendingWorkspace = "workspace_id"
)

// sendingProviders are the sending platforms of the plugin catalog.
type sendingProviders struct {
	host     *pluginhost.Host
	log      *slog.Logger
	prints   ports.Fingerprinter
	operator connections
	routes   map[string]sendingRoute // by provider

	mu    sync.Mutex
	known map[string]wire.Description // of those that described themselves once
}

var _ ports.SendingPlatforms = (*sendingProviders)(nil)

// sendingRoute is the route of a sending platform.
type sendingRoute = route[*telemetry.Sending, *breaker.Sending]

func newSendingProviders(c settings.Config, o providerOptions) (*sendingProviders, error) {
	routes, err := routesOf(c, o, wire.KindSending, telemetry.NewSending, breaker.NewSending)
	if err != nil {
		return nil, err
	}
	return &sendingProviders{
		host: o.host, log: o.log, prints: o.prints, routes: routes, known: map[string]wire.Description{}, operator: o.operator(c),
	}, nil
}

// Platforms implements ports.SendingPlatforms. The plugins of the kind are
// started for it once. One that never ran is left out: nothing is known of it.
func (p *sendingProviders) Platforms(ctx context.Context) ([]integration.Provider, error) {
	var all sync.WaitGroup
	for name := range p.routes {
		all.Go(func() {
			if _, err := p.about(ctx, name); err != nil {
				p.log.WarnContext(ctx, "a sending platform's plugin does not say what it is", "provider", name, "error", err)
			}
		})
	}
	all.Wait()
	var found []integration.Provider
	for _, name := range slices.Sorted(maps.Keys(p.routes)) {
		if about, ok := p.met(name); ok {
			found = append(found, integration.Provider{ID: about.Name, Title: about.Title, AuthHosts: p.authHosts(about)})
		}
	}
	return found, ctx.Err()
}

func (p *sendingProviders) met(name string) (wire.Description, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	about, ok := p.known[name]
	return about, ok
}

// about is what a plugin says of itself, which does not change while the host
// lives: the catalog pins the binary.
func (p *sendingProviders) about(ctx context.Context, name string) (wire.Description, error) {
	if about, ok := p.met(name); ok {
		return about, nil
	}
	about, err := p.host.Describe(ctx, name)
	if err != nil {
		return wire.Description{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[name] = about
	return about, nil
}

// authHosts are the hosts that links of a platform may lead to.
func (p *sendingProviders) authHosts(about wire.Description) []string {
	i := slices.IndexFunc(about.Fields, func(f wire.Field) bool { return f.Name == wire.AuthHosts && !f.Account })
	if i < 0 {
		return nil
	}
	return strings.FieldsFunc(p.set(about, about.Fields[i]), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// set is what the operator set for a field, or its default. Of a secret it is
// where it comes from.
func (p *sendingProviders) set(about wire.Description, f wire.Field) string {
	given := p.operator.settings[about.Name]
	if !f.Secret {
		return cmp.Or(given[f.Name], f.Default)
	}
	if !p.operator.secrets[about.Name][f.Name].Empty() {
		return "the sandbox"
	}
	return given[f.Name+"_file"]
}

// Capabilities implements ports.SendingPlatforms.
func (p *sendingProviders) Capabilities(ctx context.Context, provider string, given []string) integration.Capabilities {
	if _, ok := p.routes[provider]; !ok {
		return integration.Capabilities{}
	}
	about, err := p.about(ctx, provider)
	if err != nil {
		return integration.Capabilities{}
	}
	can := func(capability string) bool {
		return slices.Contains(about.Capabilities, capability) && !slices.ContainsFunc(about.Needs[capability], func(field string) bool {
			return !p.has(about, field, given)
		})
	}
	return integration.Capabilities{
		MicrosoftOAuth: can(integration.CanOAuth), MailboxRefresh: can(integration.CanRefresh), MailboxDisconnect: can(integration.CanDisconnect),
	}
}

// has reports whether a field that a capability needs was given, by the account
// or by the operator.
func (p *sendingProviders) has(about wire.Description, field string, given []string) bool {
	i := slices.IndexFunc(about.Fields, func(f wire.Field) bool { return f.Name == field })
	switch {
	case i < 0:
		return false
	case about.Fields[i].Account:
		return slices.Contains(given, field)
	default:
		value := p.set(about, about.Fields[i])
		return value != "" && value != "false"
	}
}

// For implements ports.SendingPlatforms: the plugin's process, the circuit, the
// measurement of each call.
func (p *sendingProviders) For(provider string, credential secret.Credential) ports.SendingPlatform {
	plugin := p.plugin(provider, wire.Connection{Settings: credential.Settings, Secrets: credential.Secrets})
	route, ok := p.routes[provider]
	if !ok {
		return plugin // which is none: it says so
	}
	own := func(ctx context.Context) bool {
		about, err := p.about(ctx, provider)
		return err == nil && about.FaultDomain == wire.FaultCredential
	}
	return route.calls.Measure(route.circuits.Guard(plugin, p.print(credential), own))
}

// domain is the kind of fault domain that a platform has circuits for, as far
// as its plugin has said.
func (p *sendingProviders) domain(provider string) string {
	if about, ok := p.met(provider); ok && about.FaultDomain == wire.FaultCredential {
		return "credential"
	}
	return "provider"
}

// print tells credentials apart in the names of circuits and counters, as it
// does for DNS providers. Platforms count by key, so integrations of one key in
// several workspaces share it, whatever else they gave.
func (p *sendingProviders) print(credential secret.Credential) string {
	keyed := wire.Connection{Settings: maps.Clone(credential.Settings), Secrets: map[string]secret.Text{sendingKey: credential.Secrets[sendingKey]}}
	delete(keyed.Settings, sendingWorkspace)
	sum, err := p.prints.Fingerprint([]byte(keyed.Fingerprint()))
	if err != nil {
		p.log.Error("credentials of sending platforms are not told apart", "error", err)
	}
	return hex.EncodeToString(sum)
}

func (p *sendingProviders) plugin(provider string, account wire.Connection) ports.SendingPlatform {
	return p.host.Sending(provider, p.operator.joined(provider, account, p.about))
}
