// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/plugins/wire"
)

type addOptions struct {
	account, provider, name, credential string
	settings                            []string
}

func addDNSConnectionCommand() *cobra.Command {
	var options addOptions
	cmd := &cobra.Command{
		Use:   "add --account ACCOUNT --provider PROVIDER --credential-file FILE|- [--name NAME] [--set NAME=VALUE]…",
		Short: "Connect an account to a DNS provider; the credential is tested first",
		Long: "Adds a connection to a DNS provider to an account, so that this service can write to the account's zones.\n" +
			"The credential is tested first. If the test fails, nothing is stored, and the exit code is 4. The credential is\n" +
			"stored encrypted and never shown again. An account may have several connections to one provider; for each\n" +
			"zone, the connection whose credential has access to it is used.\n\n" +
			"The file holds the secret as the provider issued it. For a provider with several secrets the file holds a JSON\n" +
			"object with the secrets. Pass all other fields of the connection with --set. If a field is missing, the command\n" +
			"lists all fields. For example:\n\n" +
			"  tenantry dns-connection add --account ann@example.com --provider cloudflare --credential-file token\n" +
			"  tenantry dns-connection add --account ann@example.com --provider powerdns --credential-file key \\\n" +
			"    --set api_url=https://dns.example.com:8081\n" +
			"  tenantry dns-connection add --account ann@example.com --provider rfc2136 --credential-file key \\\n" +
			"    --set server=ns1.example.com --set zones=example.com,example.net --set key_name=tenantry",
		RunE: withDNSDependencies(func(ctx context.Context, cmd *cobra.Command, deps dnsDependencies) error {
			return options.run(ctx, cmd, deps)
		}),
	}
	cmd.Flags().StringVar(&options.account, "account", "", accountFlagHelp)
	cmd.Flags().StringVar(&options.provider, "provider", "", "the DNS provider, such as cloudflare, powerdns or rfc2136")
	cmd.Flags().StringVar(&options.name, "name", "", "what the connection is for")
	cmd.Flags().StringVar(&options.credential, "credential-file", "", "the file with the secret, or - for standard input")
	cmd.Flags().StringArrayVar(&options.settings, "set", nil, "a field of the provider that is not a secret, as `NAME=VALUE`")
	cli.RequireFlags(cmd, "account", "provider")
	_ = cmd.RegisterFlagCompletionFunc("provider", completePlugins(wire.KindDNS)) // fails only for a flag that does not exist
	return cmd
}

// run checks the flags, and adds the connection if the test of the credential succeeds.
func (options addOptions) run(ctx context.Context, cmd *cobra.Command, deps dnsDependencies) error {
	if err := checkName(options.name); err != nil {
		return err
	}
	description, err := options.describeProvider(ctx, deps.providers)
	if err != nil {
		return err
	}
	form := credentialForm{description}
	settings, err := form.settings(options.settings)
	if err != nil {
		return form.usageError(err)
	}
	secrets, err := form.secrets(cmd, options.credential)
	if err != nil {
		return form.usageError(err)
	}
	owner, err := deps.store.FindAccount(ctx, options.account)
	if err != nil {
		return err
	}
	if err := owner.CheckOpen(); err != nil {
		return err
	}
	c, err := deps.connections.Add(ctx, dnsconnections.NewConnection{
		Account: owner.ID, Provider: description.Name, Name: options.name, Credential: secrets.withSettings(settings),
	})
	if err != nil {
		return explainAddError(description.Name, err)
	}
	return cli.Show(cmd, newDNSConnectionRow(c))
}

// describeProvider returns the description of the provider from its plugin. It fails when the
// catalog has no DNS provider with this name, or when the plugin does not describe itself.
func (options addOptions) describeProvider(ctx context.Context, p *wiring.DNSProviders) (wire.Description, error) {
	names := p.Host.Names(wire.KindDNS)
	if len(names) == 0 {
		return wire.Description{}, cli.WithFix(errors.New("the catalog has no plugin of a DNS provider"),
			"add one with `tenantry plugin add FILE…`; `tenantry plugin list` shows the catalog")
	}
	if !slices.Contains(names, options.provider) {
		return wire.Description{}, cli.UsageError(fmt.Errorf("there is no DNS provider %q; --provider must be one of %s", options.provider, strings.Join(names, ", ")))
	}
	description, err := p.Host.Describe(ctx, options.provider)
	if err != nil {
		err = cli.WithFix(err, "`tenantry doctor` reports the problem of the plugin")
	}
	return description, err
}
