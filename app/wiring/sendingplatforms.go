// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// Names of fields in the credentials of sending platforms.
const (
	apiKeyField    = "api_key"
	workspaceField = "workspace_id"
)

// sendingPlatforms implements ports.SendingPlatforms with the sending plugins of the plugin
// folder.
type sendingPlatforms struct {
	host          *pluginhost.Host
	fingerprintOf fingerprintFunc
	operator      Connections
	chains        map[string]callChain // by provider, with the plugins that were removed since the start
	names         func() []string      // returns the names of the sending plugins, sorted, without removed plugins
	descriptions  *descriptionCache
}

var _ ports.SendingPlatforms = (*sendingPlatforms)(nil)

func newSendingPlatforms(c settings.Config, o providerOptions) (*sendingPlatforms, error) {
	chains, err := newCallChains(c, o, wire.KindSending)
	if err != nil {
		return nil, err
	}
	return &sendingPlatforms{
		host: o.host, fingerprintOf: newFingerprintFunc(o, wire.KindSending), chains: chains, descriptions: newDescriptionCache(o), operator: o.operatorConnections(c),
		names: func() []string { return o.host.Names(wire.KindSending) },
	}, nil
}

// Platforms returns the platforms whose plugins described themselves, sorted by id. It starts each
// sending plugin that has not described itself yet. A plugin that fails to start, or starts too
// slowly, is logged and left out. Platforms fails only when ctx ends.
func (p *sendingPlatforms) Platforms(ctx context.Context) ([]integration.Provider, error) {
	descriptions, _ := p.descriptions.describeAll(ctx, p.names())
	var described []integration.Provider
	for _, description := range descriptions {
		described = append(described, p.describedProvider(description))
	}
	return described, ctx.Err()
}

// Platform returns one platform. If the plugin has not described itself yet, Platform starts it.
// Platform fails if the plugin is missing or does not start.
func (p *sendingPlatforms) Platform(ctx context.Context, provider string) (integration.Provider, error) {
	description, err := p.descriptions.describe(ctx, provider)
	if err != nil {
		return integration.Provider{}, err
	}
	return p.describedProvider(description), nil
}

func (p *sendingPlatforms) describedProvider(description wire.Description) integration.Provider {
	provider := integration.Provider{ID: description.Name, Title: description.Title, AuthHosts: p.authHosts(description)}
	var fieldNames []string
	for _, f := range description.FieldsOf(wire.OfAccount) {
		fieldNames = append(fieldNames, f.Name)
		if f.Required {
			provider.RequiredFields = append(provider.RequiredFields, f.Name)
		}
	}
	provider.Capabilities = p.capabilities(description, fieldNames)
	return provider
}

// authHosts returns the hosts to which a platform's sign-in links may point.
func (p *sendingPlatforms) authHosts(description wire.Description) []string {
	i := slices.IndexFunc(description.Fields, func(f wire.Field) bool { return f.Name == wire.AuthHosts && !f.Account })
	if i < 0 {
		return nil
	}
	return integration.SplitAuthHosts(p.operatorValue(description, description.Fields[i]))
}

// operatorValue returns the operator's value of a field, or the field's default. For a secret field
// it returns the path of the secret's file, or "the sandbox" if the sandbox set the secret.
func (p *sendingPlatforms) operatorValue(description wire.Description, f wire.Field) string {
	values := p.operator.Settings[description.Name]
	if !f.Secret {
		return cmp.Or(values[f.Name], f.Default)
	}
	if !p.operator.secrets[description.Name][f.Name].Empty() {
		return "the sandbox"
	}
	return values[f.Name+"_file"]
}

// Capabilities returns the capabilities of an integration with a credential that has accountFields.
// It calls no platform. A provider without a plugin has no capabilities. Capabilities fails with
// outcome.Down if the plugin does not start, or starts too slowly.
func (p *sendingPlatforms) Capabilities(ctx context.Context, provider string, accountFields []string) (integration.Capabilities, error) {
	if !slices.Contains(p.names(), provider) {
		return integration.Capabilities{}, nil
	}
	description, err := p.descriptions.describeSoon(ctx, provider)
	if err != nil {
		return integration.Capabilities{}, err
	}
	return p.capabilities(description, accountFields), nil
}

func (p *sendingPlatforms) capabilities(description wire.Description, accountFields []string) integration.Capabilities {
	supports := func(capability string) bool {
		return slices.Contains(description.Capabilities, capability) && !slices.ContainsFunc(description.Needs[capability], func(field string) bool {
			return !p.hasField(description, field, accountFields)
		})
	}
	return integration.Capabilities{
		OAuth: supports(integration.CanOAuth), MailboxRefresh: supports(integration.CanRefresh), MailboxDisconnect: supports(integration.CanDisconnect),
	}
}

// hasField reports whether a field that a capability needs is set. accountFields are the account
// fields that are set. The operator sets all other fields. The operator's value "false" counts as
// not set.
func (p *sendingPlatforms) hasField(description wire.Description, field string, accountFields []string) bool {
	i := slices.IndexFunc(description.Fields, func(f wire.Field) bool { return f.Name == field })
	switch {
	case i < 0:
		return false
	case description.Fields[i].Account:
		return slices.Contains(accountFields, field)
	default:
		value := p.operatorValue(description, description.Fields[i])
		return value != "" && value != "false"
	}
}

// For returns the port of a platform for one credential. Each call passes the interceptors of
// callChain.accountInterceptors and wire.CutReadsAsDown on its way to the plugin. If the platform
// has no plugin, every call fails.
func (p *sendingPlatforms) For(provider string, credential secret.Credential) ports.SendingPlatform {
	account := wire.Connection{Settings: credential.Settings, Secrets: credential.Secrets}
	chain, ok := p.chains[provider]
	if !ok {
		return p.pluginPort(provider, account) // the host has no such plugin, so each call returns an error
	}
	circuitPerCredential := func(ctx context.Context) bool {
		description, err := p.descriptions.describe(ctx, provider)
		return err == nil && description.FaultDomain == wire.FaultCredential
	}
	interceptors := chain.accountInterceptors(breaker.ByProvider(p.fingerprint(credential), circuitPerCredential))
	return p.pluginPort(provider, account, append(interceptors, wire.CutReadsAsDown())...)
}

// faultDomain returns what one circuit of a platform covers: "credential" or "provider". It returns
// "provider" until the plugin has described itself.
func (p *sendingPlatforms) faultDomain(provider string) string {
	if description, ok := p.descriptions.cached(provider); ok && description.FaultDomain == wire.FaultCredential {
		return "credential"
	}
	return "provider"
}

// fingerprint returns the fingerprint of a credential (see newFingerprintFunc). It is computed from
// the API key and all settings except the workspace. Platforms count calls by API key. Integrations
// that use the same key in several workspaces therefore share a fingerprint.
func (p *sendingPlatforms) fingerprint(credential secret.Credential) string {
	connection := wire.Connection{Settings: maps.Clone(credential.Settings), Secrets: map[string]secret.Text{apiKeyField: credential.Secrets[apiKeyField]}}
	delete(connection.Settings, workspaceField)
	return p.fingerprintOf(connection)
}

func (p *sendingPlatforms) pluginPort(provider string, account wire.Connection, interceptors ...wire.Interceptor) ports.SendingPlatform {
	return p.host.Sending(provider, p.operator.connectionBuilder(provider, account, p.descriptions.describe), interceptors...)
}

// ParseCredential parses the credential text of an integration. The text is the API key alone, or a
// JSON object of the plugin's account fields. ParseCredential fails with unknown_provider if the
// provider has no plugin, with service_unavailable if the plugin does not start soon, and with
// invalid_request if the text does not match the fields.
func (p *sendingPlatforms) ParseCredential(ctx context.Context, provider string, text secret.Text) (secret.Credential, error) {
	if names := p.names(); !slices.Contains(names, provider) {
		known := strings.Join(names, ", ")
		return secret.Credential{}, fault.UnknownProvider.At("There is no sending platform with this name. The sending platforms are "+known+".",
			fault.Field{Name: "provider", Message: "must be one of " + known})
	}
	description, err := p.descriptions.describeSoon(ctx, provider)
	if err != nil {
		return secret.Credential{}, fault.ServiceUnavailable.RetryIn(unusableProviderRetry, "%s does not run", kindTitles[wire.KindSending])
	}
	return parseCredential(description, text)
}

// parseCredential parses a credential text with the account fields that a plugin describes. Its
// errors do not quote the text, because any part of the text may be a secret.
func parseCredential(description wire.Description, text secret.Text) (secret.Credential, error) {
	fields := description.FieldsOf(wire.OfAccount)
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	members := map[string]string{apiKeyField: strings.TrimSpace(text.Reveal())}
	if strings.HasPrefix(members[apiKeyField], "{") {
		var object map[string]string
		if json.Unmarshal([]byte(members[apiKeyField]), &object) != nil {
			return secret.Credential{}, credentialError("is not a valid JSON object: each member must be a text, and its name one of %s", strings.Join(names, ", "))
		}
		members = object
	}
	c := secret.Credential{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, f := range fields {
		value := strings.TrimSpace(members[f.Name])
		delete(members, f.Name)
		switch {
		case value == "" && f.Required:
			return secret.Credential{}, credentialError("must have %s", f.Name)
		case value == "":
		case f.Secret:
			c.Secrets[f.Name] = secret.New(value)
		default:
			c.Settings[f.Name] = value
		}
	}
	if len(members) > 0 {
		return secret.Credential{}, credentialError("has an unknown member; this provider knows %s", strings.Join(names, ", "))
	}
	return c, nil
}

func credentialError(format string, args ...any) error {
	return fault.InvalidRequest.At("The credential does not match the fields of this provider.",
		fault.Field{Name: "api_key", Message: fmt.Sprintf(format, args...)})
}
