// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// Read implements ports.SendingPlatforms.
func (p *sendingProviders) Read(ctx context.Context, provider string, text secret.Text) (secret.Credential, error) {
	if _, ok := p.routes[provider]; !ok {
		return secret.Credential{}, fault.UnknownProvider.At("There is no sending platform of this name here.",
			fault.Field{Location: "body.provider", Message: "is none of the sending platforms here"})
	}
	about, err := p.about(ctx, provider)
	if err != nil {
		return secret.Credential{}, fault.ServiceUnavailable.RetryIn(retryConfig, "%s does not run", whom[wire.KindSending])
	}
	return credentialOf(about, text)
}

// credentialOf reads the one text of a credential against the fields that a
// plugin describes. What it refuses it does not repeat: any of it may be a
// secret.
func credentialOf(about wire.Description, text secret.Text) (secret.Credential, error) {
	fields := about.FieldsOf(true)
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	members := map[string]string{sendingKey: strings.TrimSpace(text.Reveal())}
	if strings.HasPrefix(members[sendingKey], "{") {
		var object map[string]string
		if json.Unmarshal([]byte(members[sendingKey]), &object) != nil {
			return secret.Credential{}, badCredential("is a JSON object that cannot be read: each member is a text, of %s", strings.Join(names, ", "))
		}
		members = object
	}
	c := secret.Credential{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, f := range fields {
		value := strings.TrimSpace(members[f.Name])
		delete(members, f.Name)
		switch {
		case value == "" && f.Required:
			return secret.Credential{}, badCredential("lacks %s", f.Name)
		case value == "":
		case f.Secret:
			c.Secrets[f.Name] = secret.New(value)
		default:
			c.Settings[f.Name] = value
		}
	}
	if len(members) > 0 {
		return secret.Credential{}, badCredential("has a member that this provider does not know; it knows %s", strings.Join(names, ", "))
	}
	return c, nil
}

func badCredential(format string, args ...any) error {
	return fault.InvalidRequest.At("The credential is not what this provider takes.",
		fault.Field{Location: "body.api_key", Message: fmt.Sprintf(format, args...)})
}
