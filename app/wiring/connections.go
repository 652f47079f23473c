// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"maps"
	"slices"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// Connections builds the operator's part of provider connections from the operator's settings.
type Connections struct {
	// Settings are the settings of each provider, by provider and name.
	Settings map[string]map[string]string
	// secrets are the sandbox's credentials, by provider and field. They are in no file.
	secrets map[string]map[string]secret.Text
	// Files reads the credential files that the settings name.
	Files *CredentialFiles
	// Describe returns the description of a provider's plugin.
	Describe func(context.Context, string) (wire.Description, error)
}

// kindTitles are the names of the provider kinds in error messages.
var kindTitles = map[wire.Kind]string{
	wire.KindMail: "the mail platform", wire.KindDNS: "the DNS provider", wire.KindSending: "the sending platform",
}

// Of returns the operator's part of a provider's connection. It returns service_unavailable when
// a required setting is missing or a credential file cannot be read. An error of Describe is
// returned as it is.
func (c Connections) Of(ctx context.Context, provider string) (wire.Connection, error) {
	description, err := c.Describe(ctx, provider)
	if err != nil {
		return wire.Connection{}, err
	}
	missing := fault.ServiceUnavailable.RetryIn(missingSettingRetry, "%s is not configured", kindTitles[description.Kind])
	settings, fields := c.Settings[provider], description.FieldsOf(false)
	conn := wire.Connection{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, field := range fields {
		if field.Secret {
			text, err := c.Files.read(ctx, provider, field.Name+"_file", settings[field.Name+"_file"])
			if err != nil {
				return wire.Connection{}, fault.ServiceUnavailable.RetryIn(missingSettingRetry, "%s is not configured: a credential file cannot be read", kindTitles[description.Kind])
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
		if value := settings[field.Name]; value != "" {
			conn.Settings[field.Name] = value
		}
		if field.Required && conn.Settings[field.Name] == "" {
			return wire.Connection{}, missing
		}
	}
	// The mail platform needs at least one of its secrets, but each single secret is optional.
	if description.Kind == wire.KindMail && hasSecrets(fields) && len(conn.Secrets) == 0 {
		return wire.Connection{}, missing
	}
	return conn, nil
}

// joined returns a function that builds a provider's connection from the operator's part and an
// account's part. The function runs for each call, because the operator's credential files can
// change. describe returns the description of the provider's plugin.
func (c Connections) joined(provider string, account wire.Connection, describe func(context.Context, string) (wire.Description, error)) func(context.Context) (wire.Connection, error) {
	return func(ctx context.Context) (wire.Connection, error) {
		operator, err := c.Of(ctx, provider)
		if err != nil {
			return wire.Connection{}, err
		}
		description, err := describe(ctx, provider)
		if err != nil {
			return wire.Connection{}, err
		}
		return description.Join(operator, account), nil
	}
}

func hasSecrets(fields []wire.Field) bool {
	return slices.ContainsFunc(fields, func(f wire.Field) bool { return f.Secret })
}

// SettingOf returns the name of the setting for a provider's field. The value of a secret field comes
// from a file, and the name of its setting ends in `_file`.
func SettingOf(field wire.Field) string {
	if field.Secret {
		return field.Name + "_file"
	}
	return field.Name
}

// UnknownSettings returns the names of a provider's settings that its plugin does not know,
// sorted.
func UnknownSettings(description wire.Description, settings map[string]string) []string {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !slices.ContainsFunc(description.FieldsOf(false), func(f wire.Field) bool { return SettingOf(f) == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
