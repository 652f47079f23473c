// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/plugins/wire"
)

// addition is what `dns-connection add` was given.
type addition struct {
	account, provider, name, credential string
	set                                 []string
}

func addDNSConnectionCommand() *cobra.Command {
	var a addition
	cmd := &cobra.Command{
		Use:   "add --account ACCOUNT --provider PROVIDER --credential-file FILE|- [--name NAME] [--set NAME=VALUE]…",
		Short: "Connect an account to a DNS provider; the credential is tested first",
		Long: "Gives an account a connection to a DNS provider, by which this service may write into the account's zones.\n" +
			"The credential is tested first: one that fails is not stored, and the command ends with exit code 4. It is\n" +
			"stored encrypted and never shown again. An account may have several connections to one provider; for each\n" +
			"zone the one is used whose credential reaches it.\n\n" +
			"The file holds the secret as the provider gave it, of a provider with several secrets a JSON object of\n" +
			"them. What else the provider needs goes into --set, once for each field. Without them the command says\n" +
			"which there are. For example:\n\n" +
			"  tenantry dns-connection add --account ann@example.com --provider cloudflare --credential-file token\n" +
			"  tenantry dns-connection add --account ann@example.com --provider powerdns --credential-file key \\\n" +
			"    --set api_url=https://dns.example.com:8081\n" +
			"  tenantry dns-connection add --account ann@example.com --provider rfc2136 --credential-file key \\\n" +
			"    --set server=ns1.example.com --set zones=example.com,example.net --set key_name=tenantry",
		RunE: withDNSProviders(func(ctx context.Context, cmd *cobra.Command, desk dnsDesk) error { return a.run(ctx, cmd, desk) }),
	}
	cmd.Flags().StringVar(&a.account, "account", "", accountHelp)
	cmd.Flags().StringVar(&a.provider, "provider", "", "the DNS provider, as cloudflare, powerdns or rfc2136")
	cmd.Flags().StringVar(&a.name, "name", "", "what the connection is for")
	cmd.Flags().StringVar(&a.credential, "credential-file", "", "the file with the secret, or - for standard input")
	cmd.Flags().StringArrayVar(&a.set, "set", nil, "a field of the provider's that is no secret, as `NAME=VALUE`")
	cli.Require(cmd, "account", "provider")
	return cmd
}

func (a addition) run(ctx context.Context, cmd *cobra.Command, desk dnsDesk) error {
	if utf8.RuneCountInString(a.name) > 100 || cli.Printable(a.name) != a.name {
		return cli.Usage(errors.New("--name is one line of at most 100 characters"))
	}
	about, err := a.about(ctx, desk.providers)
	if err != nil {
		return err
	}
	form := accountForm{about}
	settings, err := form.settings(a.set)
	if err != nil {
		return form.wrong(err)
	}
	secrets, err := form.secrets(cmd, a.credential)
	if err != nil {
		return form.wrong(err)
	}
	owner, err := desk.store.FindAccount(ctx, a.account)
	if err != nil {
		return err
	}
	if err := owner.Open(); err != nil {
		return err
	}
	c, err := desk.service.Add(ctx, dnsconnections.New{
		Account: owner.ID, Provider: about.Name, Name: a.name, Credential: secrets.with(settings),
	})
	if err != nil {
		return notAdded(about.Name, err)
	}
	return cli.Show(cmd, dnsConnectionOf(c))
}

// about is what the provider's plugin says of itself.
func (a addition) about(ctx context.Context, p *providers) (wire.Description, error) {
	names := p.host.Names(wire.KindDNS)
	if len(names) == 0 {
		return wire.Description{}, cli.WithFix(errors.New("the catalog has no plugin of a DNS provider"),
			"add one with `tenantry plugin add FILE…`; `tenantry plugin list` shows the catalog")
	}
	if !slices.Contains(names, a.provider) {
		return wire.Description{}, cli.Usage(fmt.Errorf("there is no DNS provider %q; --provider is %s", a.provider, strings.Join(names, ", ")))
	}
	about, err := p.host.Describe(ctx, a.provider)
	if err != nil {
		err = cli.WithFix(err, "`tenantry doctor` says what is wrong with the plugin")
	}
	return about, err
}
