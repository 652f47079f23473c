// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// SendingPlatforms is the set of sending platforms, in memory. The provider, and the secret
// `api_key` and the setting `workspace_id` of a credential, select the workspace.
type SendingPlatforms struct {
	mu         sync.Mutex
	providers  []sendingProvider
	stopped    map[string]bool // the providers whose plugins do not run
	workspaces map[string]ports.SendingPlatform
}

type sendingProvider struct {
	integration.Provider
	capabilities func(fields []string) integration.Capabilities
}

var _ ports.SendingPlatforms = (*SendingPlatforms)(nil)

// AddProvider adds a platform to the result of Platforms. If capabilities is nil, every credential
// has all capabilities.
func (p *SendingPlatforms) AddProvider(provider integration.Provider, capabilities func(fields []string) integration.Capabilities) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if capabilities == nil {
		capabilities = func([]string) integration.Capabilities {
			return integration.Capabilities{OAuth: true, MailboxRefresh: true, MailboxDisconnect: true}
		}
	}
	p.providers = append(p.providers, sendingProvider{provider, capabilities})
}

// AddWorkspace makes For return platform for a credential with this key and workspace. workspace is
// "" for credentials without a workspace.
func (p *SendingPlatforms) AddWorkspace(provider, key, workspace string, platform ports.SendingPlatform) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workspaces == nil {
		p.workspaces = map[string]ports.SendingPlatform{}
	}
	p.workspaces[provider+" "+key+" "+workspace] = platform
}

// Platforms implements ports.SendingPlatforms.
func (p *SendingPlatforms) Platforms(context.Context) ([]integration.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var providers []integration.Provider
	for _, candidate := range p.providers {
		providers = append(providers, candidate.Provider)
	}
	slices.SortFunc(providers, func(a, b integration.Provider) int { return strings.Compare(a.ID, b.ID) })
	return providers, nil
}

// StopPlugin makes Capabilities fail for a provider as if its plugin did not run.
func (p *SendingPlatforms) StopPlugin(provider string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		p.stopped = map[string]bool{}
	}
	p.stopped[provider] = true
}

func (p *SendingPlatforms) findProvider(provider string) (sendingProvider, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, candidate := range p.providers {
		if candidate.ID == provider {
			return candidate, true
		}
	}
	return sendingProvider{}, false
}

// ParseCredential implements ports.SendingPlatforms. text is an API key or a JSON object. Every
// member of the object becomes a secret.
func (p *SendingPlatforms) ParseCredential(_ context.Context, provider string, text secret.Text) (secret.Credential, error) {
	if _, known := p.findProvider(provider); !known {
		return secret.Credential{}, fault.UnknownProvider.With("there is no such sending platform")
	}
	c := secret.Credential{Settings: map[string]string{}, Secrets: map[string]secret.Text{"api_key": text}}
	if strings.HasPrefix(text.Reveal(), "{") {
		members := map[string]string{}
		if json.Unmarshal([]byte(text.Reveal()), &members) != nil || members["api_key"] == "" {
			return secret.Credential{}, fault.InvalidRequest.At("the credential does not match the fields of this provider",
				fault.Field{Name: "api_key", Message: "must be a JSON object with api_key"})
		}
		for name, value := range members {
			c.Secrets[name] = secret.New(value)
		}
	}
	return c, nil
}

// Platform implements ports.SendingPlatforms.
func (p *SendingPlatforms) Platform(_ context.Context, provider string) (integration.Provider, error) {
	found, known := p.findProvider(provider)
	if !known {
		return integration.Provider{}, &outcome.Error{Kind: outcome.Down}
	}
	return found.Provider, nil
}

// Capabilities implements ports.SendingPlatforms.
func (p *SendingPlatforms) Capabilities(_ context.Context, provider string, fields []string) (integration.Capabilities, error) {
	p.mu.Lock()
	stopped := p.stopped[provider]
	p.mu.Unlock()
	if stopped {
		return integration.Capabilities{}, &outcome.Error{Kind: outcome.Down}
	}
	found, known := p.findProvider(provider)
	if !known {
		return integration.Capabilities{}, nil
	}
	return found.capabilities(fields), nil
}

// For implements ports.SendingPlatforms.
func (p *SendingPlatforms) For(provider string, credential secret.Credential) ports.SendingPlatform {
	p.mu.Lock()
	defer p.mu.Unlock()
	platform, found := p.workspaces[provider+" "+credential.Secrets["api_key"].Reveal()+" "+credential.Settings["workspace_id"]]
	if !found {
		return RefusingSendingPlatform()
	}
	return platform
}

// RefusingSendingPlatform returns a platform that rejects the credential: every call fails with
// access_denied.
func RefusingSendingPlatform() *SendingPlatform {
	return failingSendingPlatform(outcome.Refused, fault.AccessDenied)
}

// UnreachableSendingPlatform returns a platform that cannot be reached: every call fails with
// outcome.Down.
func UnreachableSendingPlatform() *SendingPlatform {
	return failingSendingPlatform(outcome.Down, fault.Code{})
}

func failingSendingPlatform(kind outcome.Kind, code fault.Code) *SendingPlatform {
	p := NewSendingPlatform()
	p.Fail(Fault{Kind: kind, Code: code})
	return p
}
