// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// checkMailPlatform checks that the settings of the mail platform are complete, then sends a
// request to the platform through its plugin.
func (e *examination) checkMailPlatform(ctx context.Context) finding {
	description, err := e.describe(e.config.MailPlatform)
	if err != nil {
		return skippedFinding("plugins")
	}
	title, configured := cmp.Or(description.Title, description.Name), e.config.Providers[e.config.MailPlatform]
	if missing, variables := missingSettings(description, configured); len(missing) > 0 {
		return failedFinding("set "+strings.Join(variables, " and "), "%s is not configured: %s missing", title, strings.Join(missing, " and "))
	}
	host, err := e.pluginHost()
	if err != nil {
		return skippedFinding("plugins")
	}
	connections := wiring.Connections{Settings: e.config.Providers, Files: &wiring.CredentialFiles{}, Describe: host.Describe}
	err = host.Mail(e.config.MailPlatform, func(ctx context.Context) (wire.Connection, error) {
		return connections.OperatorConnection(ctx, e.config.MailPlatform)
	}).Check(ctx)
	if err != nil {
		return mailPlatformFailure(title, err)
	}
	return okFinding("%s answers and accepts the configured credential", title)
}

// missingSettings returns the required settings of a mail platform that have neither a value nor a
// default, and the environment variables that set them. If all secrets are optional, at least one
// of them must be set.
func missingSettings(description wire.Description, configured map[string]string) (missing, variables []string) {
	var secretVariables, secretNames []string
	hasSecret := false
	for _, field := range description.Fields {
		name := wiring.SettingOf(field)
		variable := settings.VariableName("providers." + description.Name + "." + name)
		isSet := configured[name] != ""
		switch {
		case field.Required && !isSet && (field.Secret || field.Default == ""):
			missing, variables = append(missing, name), append(variables, variable)
		case field.Secret:
			secretVariables, secretNames = append(secretVariables, variable), append(secretNames, name)
		}
		hasSecret = hasSecret || field.Secret && (isSet || field.Required) // a missing required secret is in missing
	}
	if len(secretNames) > 0 && !hasSecret {
		missing = append(missing, strings.Join(secretNames, " or "))
		variables = append(variables, strings.Join(secretVariables, " or "))
	}
	return missing, variables
}

// mailPlatformFailure returns the finding for a failed call of the mail platform. The finding may
// show the texts of an outcome.Error, because they contain no secret.
func mailPlatformFailure(title string, err error) finding {
	var callErr *outcome.Error
	if !errors.As(err, &callErr) {
		return failedFinding("see the check credentials", "%s cannot be checked: %s", title, faultDetail(err))
	}
	detail := callErr.Detail
	if callErr.Cause != "" {
		detail += " (" + callErr.Cause + ")"
	}
	switch {
	case errors.Is(err, fault.AccessDenied):
		return failedFinding("correct the client id and the credential of the application, or create a new credential at its registration",
			"%s refuses the configured application: %s", title, detail)
	case callErr.Kind == outcome.Refused:
		return failedFinding("correct the setting; `tenantry config` shows all values", "%s is not configured: %s", title, detail)
	case callErr.Kind == outcome.Throttled:
		return warningFinding("run `tenantry doctor` again in some minutes", "%s answers, but throttles the call: %s", title, detail)
	default:
		return failedFinding("check the platform's status page; if it reports no problem, let this machine reach the host of login_url (DNS, firewall)",
			"%s is down or cannot be reached: %s", title, detail)
	}
}

// faultDetail returns the detail of a fault.Error, or the first line of any other error.
func faultDetail(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Detail
	}
	return cli.FirstLine(err)
}
