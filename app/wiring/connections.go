// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// Connections builds provider connections from the operator's settings and credential files. A
// connection holds the settings and secrets with which a plugin calls its provider. The operator
// provides one part of a connection, and an account can add its own part.
type Connections struct {
	// Settings are the settings of each provider, by provider and name.
	Settings map[string]map[string]string
	// secrets are the sandbox's credentials, by provider and field. No file contains them.
	secrets map[string]map[string]secret.Text
	// Files reads the credential files that the settings name.
	Files    *CredentialFiles
	Describe describeFunc
}

// kindTitles are the names of the provider kinds in error messages.
var kindTitles = map[wire.Kind]string{
	wire.KindMail: "the mail platform", wire.KindDNS: "the DNS provider", wire.KindSending: "the sending platform",
}

// OperatorConnection returns the operator's part of a provider's connection. It returns
// service_unavailable when a required setting is missing, when a credential file cannot be read, or
// when the mail platform has none of its secrets. It returns an error of Describe unchanged.
func (c Connections) OperatorConnection(ctx context.Context, provider string) (wire.Connection, error) {
	description, err := c.Describe(ctx, provider)
	if err != nil {
		return wire.Connection{}, err
	}
	missing := fault.ServiceUnavailable.RetryIn(unusableProviderRetry, "%s is not configured", kindTitles[description.Kind])
	configured, fields := c.Settings[provider], description.FieldsOf(wire.OfOperator)
	connection := wire.Connection{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	for _, field := range fields {
		if field.Secret {
			text, err := c.Files.read(ctx, provider, field.Name+"_file", configured[field.Name+"_file"])
			if err != nil {
				return wire.Connection{}, fault.ServiceUnavailable.RetryIn(unusableProviderRetry, "%s is not configured: a credential file cannot be read", kindTitles[description.Kind])
			}
			if text.Empty() {
				text = c.secrets[provider][field.Name]
			}
			if !text.Empty() {
				connection.Secrets[field.Name] = text
			} else if field.Required {
				return wire.Connection{}, missing
			}
			continue
		}
		connection.Settings[field.Name] = field.Default
		if value := configured[field.Name]; value != "" {
			connection.Settings[field.Name] = value
		}
		if field.Required && connection.Settings[field.Name] == "" {
			return wire.Connection{}, missing
		}
	}
	// A mail platform can have several optional secrets, of which one must be set.
	if description.Kind == wire.KindMail && hasSecrets(fields) && len(connection.Secrets) == 0 {
		return wire.Connection{}, missing
	}
	return connection, nil
}

// connectionBuilder returns a function that builds a provider's connection from the operator's part
// and an account's part. The plugin host calls this function for each call, because the operator's
// credential files can change.
func (c Connections) connectionBuilder(provider string, account wire.Connection, describe describeFunc) func(context.Context) (wire.Connection, error) {
	return func(ctx context.Context) (wire.Connection, error) {
		operator, err := c.OperatorConnection(ctx, provider)
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

// SettingOf returns the name of the setting for a provider's field. The value of a secret field
// comes from a file, and the name of its setting ends in `_file`.
func SettingOf(field wire.Field) string {
	if field.Secret {
		return field.Name + "_file"
	}
	return field.Name
}

// ProviderSettingProblems returns an error for each provider that has settings but no plugin. It
// also returns an error for each setting that the provider's plugin does not define. The parameter
// plugins has the names of all plugins. ProviderSettingProblems skips a plugin whose description
// cannot be read.
func ProviderSettingProblems(configured map[string]map[string]string, plugins []string, describe func(provider string) (wire.Description, error)) []settings.Problem {
	var problems []settings.Problem
	for _, provider := range slices.Sorted(maps.Keys(configured)) {
		if !slices.Contains(plugins, provider) {
			hint := "; the plugins are " + strings.Join(plugins, ", ")
			if similar := settings.Nearest(provider, plugins); similar != "" {
				hint = fmt.Sprintf("; did you mean providers.%s (%s_…)?", similar, settings.VariableName("providers."+similar))
			}
			problems = append(problems, settings.Problem{Setting: "providers." + provider, Text: "there is no plugin of a provider with this name" + hint})
			continue
		}
		description, err := describe(provider)
		if err != nil {
			continue
		}
		var known []string
		for _, field := range description.FieldsOf(wire.OfOperator) {
			known = append(known, SettingOf(field))
		}
		for _, name := range UnknownSettings(description, configured[provider]) {
			hint := "; its settings are " + strings.Join(known, ", ")
			if similar := settings.Nearest(name, known); similar != "" {
				hint = fmt.Sprintf("; did you mean %s (%s)?", similar, settings.VariableName("providers."+provider+"."+similar))
			}
			problems = append(problems, settings.Problem{
				Setting: "providers." + provider + "." + name, Text: cmp.Or(description.Title, provider) + " has no such setting" + hint,
			})
		}
	}
	return problems
}

// UnknownSettings returns the names of a provider's settings that its plugin does not define,
// sorted.
func UnknownSettings(description wire.Description, configured map[string]string) []string {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		if !slices.ContainsFunc(description.FieldsOf(wire.OfOperator), func(f wire.Field) bool { return SettingOf(f) == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// checkProviderSettings returns a usage error for the first of ProviderSettingProblems, so that a
// misspelt provider or setting is not ignored. It starts the plugins of the providers that have
// settings.
func (s *Service) checkProviderSettings(ctx context.Context, configured map[string]map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	var starts panics.Group // the plugins start in parallel, and the host caches their descriptions
	for provider := range configured {
		starts.Go(func() { _, _ = s.Host.Describe(ctx, provider) })
	}
	starts.Wait()
	var plugins []string
	for _, p := range s.Host.Status() {
		plugins = append(plugins, p.Name)
	}
	describe := func(provider string) (wire.Description, error) { return s.Host.Describe(ctx, provider) }
	for _, problem := range ProviderSettingProblems(configured, plugins, describe) {
		return cli.UsageError(problem)
	}
	return nil
}

// CheckMailPlatform returns a usage error if host has no mail plugin with this name. dir is the
// plugin folder of host, which the error names.
func CheckMailPlatform(host *pluginhost.Host, name, dir string) error {
	plugins := host.Names(wire.KindMail)
	if slices.Contains(plugins, name) {
		return nil
	}
	problem := settings.Problem{Setting: "mail_platform", Text: fmt.Sprintf(
		"there is no mail plugin %s; the mail plugins in %s are: %s", name, dir, cmp.Or(strings.Join(plugins, ", "), "none"))}
	return cli.WithFix(cli.UsageError(problem), "correct mail_platform, or add its plugin: tenantry plugin add --plugin-dir "+dir+" FILE…")
}

// WarnOfMissingMailPlatform logs a warning when the operator has set nothing for the mail platform,
// or when the platform cannot be called with these settings. It also loads the facts of the
// platform (platform.Facts), which later requests need.
func (s *Service) WarnOfMissingMailPlatform(ctx context.Context, configured map[string]map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	const consequence = "no tenant can be connected, and requests that need the mail platform are answered with 503"
	_, err := s.facts.Facts(ctx)
	if err == nil {
		_, err = s.mailConnection(ctx)
	}
	if len(configured[s.MailPlatform]) == 0 {
		s.Log.WarnContext(ctx, "no mail platform is configured: "+consequence,
			"fix", "set providers."+s.MailPlatform+"; `tenantry doctor` names the missing settings")
	} else if err != nil {
		s.Log.WarnContext(ctx, "the mail platform cannot be called: "+consequence, "error", err, "fix", "`tenantry doctor` names what is missing or wrong")
	}
}

// platformFacts implements ports.PlatformFacts with the description of the mail platform's plugin.
type platformFacts struct {
	describe describeFunc // descriptionCache.describe
	name     string
}

// Facts implements ports.PlatformFacts.
func (p *platformFacts) Facts(ctx context.Context) (platform.Facts, error) {
	d, err := p.describe(ctx, p.name)
	if err != nil {
		return platform.Facts{}, &outcome.Error{Kind: outcome.Down, Detail: "describe the mail platform", Cause: "plugin"}
	}
	return d.MailPlatform, nil
}
