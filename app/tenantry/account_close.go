// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

func closeCommand() *cobra.Command {
	var yes bool
	cmd := accountAct(&cobra.Command{
		Use:   "close --account ACCOUNT --yes",
		Short: "Close an account for good",
		Long: "Closes an account. There is no way back: its API keys are revoked, what is stored of its tenants, domains,\n" +
			"mailboxes, DNS connections and integrations is removed, their credentials and the log of enforcement too, and\n" +
			"other accounts may connect those tenants. Our mail flow rules, which block mailboxes, are taken out of the tenants first; where the mail\n" +
			"platform does not let them go, a warning names those that stay. Nothing else is changed there, at DNS providers\n" +
			"and at sending platforms.\n\n" +
			"The account itself stays in `account list`, and what was revoked and released in `audit list`. Its e-mail\n" +
			"address is free for a new account. To refuse requests for a while only, use `account suspend`.\n\n" +
			"On a terminal the command asks first. Anywhere else it wants --yes.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		if !yes && acc.Status() != access.StatusClosed {
			if err := confirm(ctx, cmd, closingQuestion(acc)); err != nil {
				return err
			}
		}
		unruled, err := unruleAll(ctx, cmd, store, acc.ID)
		if err != nil {
			return err
		}
		left, _ := leftOf(unruled)
		done, err := store.CloseAccount(ctx, acc.ID, time.Now(), rulesLeft(left)...)
		if err != nil {
			(&tenants.Service{Runs: store, Now: time.Now}).Resume(ctx, unruled)
			return err
		}
		for _, u := range unruled {
			tellOfRules(cmd, u.Tenant, u.Unruled)
		}
		return cli.Show(cmd, closingOf(acc, done, unruled))
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "close it without being asked")
	return cmd
}

// unruleAll takes our rules out of all tenants of an account.
func unruleAll(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.AccountID) ([]tenants.UnruledTenant, error) {
	held, err := store.Tenants(ctx, owner)
	if err != nil {
		return nil, err
	}
	ids := make([]tenant.GUID, 0, len(held))
	for _, t := range held {
		ids = append(ids, t.GUID)
	}
	s, end, err := leaving(ctx, cmd, store, owner, ids...)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.Unrule(ctx, owner)
}

func closingQuestion(acc access.Account) string {
	return fmt.Sprintf("Close the account %s of %s for good? Its keys are revoked, its %d tenants released, its DNS connections and integrations removed.", acc.ID, acc.Email, acc.TenantsHeld)
}

// confirm asks a person. Without a terminal there is nobody to ask.
func confirm(ctx context.Context, cmd *cobra.Command, question string) error {
	refusal := cli.WithFix(errors.New("not done: this cannot be undone, and nobody said yes"), "add --yes to do it without being asked")
	in := cmd.InOrStdin()
	if !terminal(in) {
		return refusal
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		if said != "y" && said != "yes" {
			return refusal
		}
		return nil
	case <-ctx.Done(): // Ctrl-C does not end the reading
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return refusal
	}
}

// terminal reports whether somebody may sit at the other end. /dev/null is the
// one device that jobs are given and people are not.
func terminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
