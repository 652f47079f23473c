// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/access"
)

func setAccountCommand() *cobra.Command {
	var displayName, supportURL string
	var returnHosts []string
	cmd := withAccount(&cobra.Command{
		Use:   "set --account ACCOUNT [--display-name NAME] [--support-url URL] [--return-hosts HOST,…]",
		Short: "Set what the connect pages show of an account",
		Long: "Sets the name and the support contact that the connect pages show of an account, and the hosts to which\n" +
			"these pages may lead back (return_url of GET /v1/tenants/connect-url). A flag that is not set leaves its\n" +
			"value unchanged, and an empty value removes it.\n\n" +
			"A return host without a port allows every port. Register only hosts that belong to the account's own product:\n" +
			"the pages send administrators there.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		flags := cmd.Flags()
		if !flags.Changed("display-name") && !flags.Changed("support-url") && !flags.Changed("return-hosts") {
			return cli.UsageError(errors.New("set --display-name, --support-url or --return-hosts"))
		}
		changed, err := store.ChangeSettings(ctx, acc.ID, func(stored access.Settings) (access.Settings, error) {
			if flags.Changed("display-name") {
				stored.DisplayName = displayName
			}
			if flags.Changed("support-url") {
				stored.SupportURL = supportURL
			}
			if flags.Changed("return-hosts") {
				stored.ReturnHosts = returnHosts
			}
			stored, err := stored.Normalized()
			if err != nil {
				return stored, cli.UsageError(err) // the stored values are valid, so the invalid value comes from a flag
			}
			return stored, nil
		})
		if err != nil {
			return err
		}
		return cli.Show(cmd, accountSettingsRow{string(acc.ID), newAccountSettings(changed)})
	})
	cmd.Flags().StringVar(&displayName, "display-name", "", "name of the account on the connect pages")
	cmd.Flags().StringVar(&supportURL, "support-url", "", "https URL or mailto:ADDRESS where administrators find help")
	cmd.Flags().StringSliceVar(&returnHosts, "return-hosts", nil, "hosts to which the connect pages may lead back, separated by commas")
	return cmd
}

// accountSettings shows the settings of the connect pages.
type accountSettings struct {
	DisplayName string   `json:"display_name"`
	SupportURL  string   `json:"support_url"`
	ReturnHosts []string `json:"return_hosts"`
}

func newAccountSettings(s access.Settings) accountSettings {
	return accountSettings{s.DisplayName, s.SupportURL, append([]string{}, s.ReturnHosts...)}
}

// Columns implements cli.Row.
func (r accountSettings) Columns() [][2]string {
	return [][2]string{
		{"DISPLAY NAME", cmp.Or(r.DisplayName, "-")}, {"SUPPORT", cmp.Or(r.SupportURL, "-")},
		{"RETURN HOSTS", cmp.Or(strings.Join(r.ReturnHosts, ", "), "-")},
	}
}

type accountSettingsRow struct {
	AccountID string `json:"account_id"`
	accountSettings
}

// Columns implements cli.Row.
func (r accountSettingsRow) Columns() [][2]string {
	return append([][2]string{{"ACCOUNT", r.AccountID}}, r.accountSettings.Columns()...)
}
