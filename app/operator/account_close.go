// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// closeCommand returns a command that removes the managed transport rules from the account's
// tenants and then closes the account. If closing fails, enforcement resumes and creates the rules
// again.
func closeCommand() *cobra.Command {
	var yes bool
	cmd := withAccount(&cobra.Command{
		Use:   "close --account ACCOUNT [--yes]",
		Short: "Close an account permanently",
		Long: "Closes an account. This cannot be undone. The API keys of the account are revoked. The stored data of its\n" +
			"tenants, domains, mailboxes, DNS connections, integrations and webhooks is removed, with their credentials,\n" +
			"the enforcement events and the log of events. Other accounts can then connect these tenants.\n\n" +
			"First, tenantry's mail flow rules, which block mailboxes, are removed from the tenants. If rules cannot be\n" +
			"removed, a warning names them. Nothing else is changed at the mail platform, at DNS providers and at sending\n" +
			"platforms.\n\n" +
			"`account list` still shows the account, and `audit list` shows what was revoked and released. The e-mail\n" +
			"address can be used for a new account. To refuse requests only for a while, use `account suspend`.\n\n" +
			"On a terminal the command asks for confirmation. Otherwise it requires --yes.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		if !yes && acc.Status() != access.StatusClosed {
			if err := confirm(cmd, closingQuestion(acc)); err != nil {
				return err
			}
		}
		service, closeService, err := closingService(ctx, cmd, store, acc.ID)
		if err != nil {
			return err
		}
		defer closeService()
		removals, err := service.RemoveAllRules(ctx, acc.ID)
		if err != nil {
			return err
		}
		remaining, _ := remainingRules(removals)
		closing, err := store.CloseAccount(ctx, acc.ID, time.Now(), ruleNames(remaining)...)
		if err != nil && closing.At.IsZero() { // the account is not closed
			service.ResumeEnforcement(ctx, removals)
			return err
		}
		// The account is closed and its tenants are released, even if err is not nil. A second
		// `account close` could not name the rules.
		for _, removal := range removals {
			warnOfRemainingRules(cmd, removal.Tenant, removal.RuleRemoval)
		}
		if err != nil {
			return cli.WithFix(fmt.Errorf("the account is closed, but its events could not be deleted: %w", err), "run the command again to delete the events")
		}
		return cli.Show(cmd, newClosedAccountRow(acc, closing, removals))
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "close the account without confirmation")
	return cmd
}

// closingService returns a service that removes the managed transport rules from all tenants of an
// account (see withdrawalService). The caller must call the returned function to close the service.
func closingService(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.AccountID) (*tenants.Service, func(), error) {
	stored, err := store.Tenants(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]tenant.GUID, 0, len(stored))
	for _, t := range stored {
		ids = append(ids, t.GUID)
	}
	return withdrawalService(ctx, cmd, store, owner, ids...)
}

func closingQuestion(acc access.Account) string {
	return fmt.Sprintf("Close the account %s of %s permanently? Its keys are revoked, its %d tenants are released, and its DNS connections and integrations are removed.", acc.ID, acc.Email, acc.TenantCount)
}

// confirm asks question on the terminal. It returns an error without an affirmative answer, and
// when standard input is not a terminal.
func confirm(cmd *cobra.Command, question string) error {
	if isTerminal(cmd.InOrStdin()) && cli.Confirm(cmd, question) {
		return nil
	}
	return cli.WithFix(errors.New("the account was not closed: closing cannot be undone and was not confirmed"), "add --yes to close the account without a question")
}

// isTerminal reports whether in can be an interactive terminal. It accepts every character device
// except /dev/null, which is the standard input of many background jobs.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	devNull, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, devNull)
}

// closedAccountRow shows what closing an account removed.
type closedAccountRow struct {
	AccountID       string `json:"account_id"`
	Email           string `json:"email"`
	Status          string `json:"status"`
	ClosedAt        string `json:"closed_at"`
	KeysRevoked     int    `json:"keys_revoked"`
	TenantsReleased int    `json:"tenants_released"`
	DNSConnections  int    `json:"dns_connections_removed"`
	Integrations    int    `json:"integrations_removed"`
	// TenantsWithoutRules is the number of tenants from which the command removed all managed
	// transport rules.
	TenantsWithoutRules int                 `json:"tenants_unruled"`
	RulesLeft           []remainingRulesRow `json:"rules_left"`
}

func newClosedAccountRow(a access.Account, closing ports.Closing, removals []tenants.TenantRuleRemoval) closedAccountRow {
	remaining, removed := remainingRules(removals)
	return closedAccountRow{
		string(a.ID), a.Email, string(access.StatusClosed), cli.FormatTime(closing.At), closing.KeysRevoked, closing.TenantsReleased,
		closing.DNSConnectionsRemoved, closing.IntegrationsRemoved, removed, remaining,
	}
}

// Columns implements cli.Row.
func (r closedAccountRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"STATUS", r.Status}, {"CLOSED", r.ClosedAt},
		{"KEYS REVOKED", strconv.Itoa(r.KeysRevoked)}, {"TENANTS RELEASED", strconv.Itoa(r.TenantsReleased)},
		{"DNS CONNECTIONS REMOVED", strconv.Itoa(r.DNSConnections)}, {"INTEGRATIONS REMOVED", strconv.Itoa(r.Integrations)},
		{"RULES LEFT", cmp.Or(strings.Join(ruleNames(r.RulesLeft), ", "), "-")},
	}
}
