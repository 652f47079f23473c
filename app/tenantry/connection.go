// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// connections are the operator's settings of each provider.
type connections struct {
	settings map[string]map[string]string
	// secrets are those of the sandbox, which are in no file.
	secrets  map[string]map[string]secret.Text
	files    *credentialFiles
	describe func(context.Context, string) (wire.Description, error)
}

// whom names the provider of each kind for people.
var whom = map[wire.Kind]string{
	wire.KindMail: "the mail platform", wire.KindDNS: "the DNS provider", wire.KindSending: "the sending platform",
}

// of returns the operator's part of a provider's connection, or
// service_unavailable when a required setting is missing.
func (c connections) of(ctx context.Context, provider string) (wire.Connection, error) {
	about, err := c.describe(ctx, provider)
	if err != nil {
		return wire.Connection{}, err
	}
	missing := fault.ServiceUnavailable.RetryIn(retryConfig, "%s is not configured", whom[about.Kind])
	given, fields := c.settings[provider], about.FieldsOf(false)
	conn := wire.Connection{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, field := range fields {
		if field.Secret {
			text, err := c.files.read(ctx, provider, field.Name+"_file", given[field.Name+"_file"])
			if err != nil {
				return wire.Connection{}, fault.ServiceUnavailable.RetryIn(retryConfig, "%s is not configured: a credential file cannot be read", whom[about.Kind])
			}
			if text.Empty() {
				text = c.secrets[provider][field.Name]
			}
			if !text.Empty() {
				conn.Secrets[field.Name] = text
			} else if field.Required {
				return wire.Connection{}, missing
			}
			continue
		}
		conn.Settings[field.Name] = field.Default
		if value := given[field.Name]; value != "" {
			conn.Settings[field.Name] = value
		}
		if field.Required && conn.Settings[field.Name] == "" {
			return wire.Connection{}, missing
		}
	}
	if about.Kind == wire.KindMail && hasSecrets(fields) && len(conn.Secrets) == 0 {
		return wire.Connection{}, missing
	}
	return conn, nil
}

func hasSecrets(fields []wire.Field) bool {
	for _, field := range fields {
		if field.Secret {
			return true
		}
	}
	return false
}
