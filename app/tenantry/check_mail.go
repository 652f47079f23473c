// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// mailPlatform looks whether the settings are complete, then asks the platform
// itself through the plugin.
func (e *examination) mailPlatform(ctx context.Context) finding {
	about, err := e.about(mailPlatform)
	if err != nil {
		return unchecked("plugins")
	}
	title, given := cmp.Or(about.Title, about.Name), e.config.Providers[mailPlatform]
	if missing, variables := lacking(about, given); len(missing) > 0 {
		return broken("set "+strings.Join(variables, " and "), "%s is not configured: %s missing", title, strings.Join(missing, " and "))
	}
	host, err := e.host()
	if err != nil {
		return unchecked("plugins")
	}
	conn := connections{settings: e.config.Providers, files: &credentialFiles{}, describe: host.Describe}
	err = host.Mail(mailPlatform, func(ctx context.Context) (wire.Connection, error) { return conn.of(ctx, mailPlatform) }).Check(ctx)
	switch unknown := unknownSettings(about, given); {
	case err != nil:
		return ailing(title, err)
	case len(unknown) > 0:
		return doubtful("correct or remove them; `tenantry config` lists those that exist",
			"%s answers and does not refuse our credential, but it has no setting %s", title, strings.Join(unknown, ", "))
	default:
		return fine("%s answers and does not refuse our credential", title)
	}
}

// lacking lists what a provider needs and was not given, and the variables
// that set it. One of the secrets is enough.
func lacking(about wire.Description, given map[string]string) (missing, variables []string) {
	var secrets, names []string
	held := false
	for _, field := range about.Fields {
		name := settingOf(field)
		variable := settings.VariableName("providers." + about.Name + "." + name)
		switch {
		case field.Secret:
			secrets, names = append(secrets, variable), append(names, name)
			held = held || given[name] != ""
		case field.Required && field.Default == "" && given[name] == "":
			missing, variables = append(missing, name), append(variables, variable)
		}
	}
	if len(secrets) > 0 && !held {
		missing, variables = append(missing, strings.Join(names, " or ")), append(variables, strings.Join(secrets, " or "))
	}
	return missing, variables
}

// ailing tells the platform's failures apart. What a plugin says in an outcome
// is safe to show.
func ailing(title string, err error) finding {
	var o *outcome.Error
	if !errors.As(err, &o) {
		return broken("see the check credentials", "%s cannot be asked: %s", title, detailOf(err))
	}
	why := o.Detail
	if o.Cause != "" {
		why += " (" + o.Cause + ")"
	}
	switch {
	case errors.Is(err, fault.AccessDenied):
		return broken("correct the client id and the credential of the application, or make a new credential where it is registered",
			"%s refuses our application: %s", title, why)
	case o.Kind == outcome.Refused:
		return broken("correct the setting; `tenantry config` shows what is set", "%s is not configured: %s", title, why)
	case o.Kind == outcome.Throttled:
		return doubtful("run `tenantry doctor` again in some minutes", "%s is there, but asks us to wait: %s", title, why)
	default:
		return broken("look at the platform's status page; if it is well, let this machine reach the host of login_url (DNS, firewall, proxy)",
			"%s is down or out of reach: %s", title, why)
	}
}

func detailOf(err error) string {
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		return refusal.Detail
	}
	return cli.OneLine(err)
}
