// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/access"
)

func planCommand() *cobra.Command {
	var plan string
	var slots int
	cmd := accountAct(&cobra.Command{
		Use:   "plan --account ACCOUNT [--plan PLAN] [--tenant-slots N]",
		Short: "Change an account's plan, or its number of tenants",
		Long: "Changes the plan of an account, or the number of tenants that it may hold. It takes effect with the next\n" +
			"request.\n\n" +
			"A plan brings its own number of tenants: without --tenant-slots the account has that of the plan\n" +
			"afterwards, even if it had been given another number before. To keep such a number, say it again. Without\n" +
			"--plan the plan stays, and --tenant-slots 0 goes back to the plan's number.\n\n" +
			"An account that holds more tenants than it now may keeps them all. Until it holds fewer, it is refused\n" +
			"what would make it larger (402 tenant_limit_reached). A suspended account stays suspended.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		if !cmd.Flags().Changed("plan") && !cmd.Flags().Changed("tenant-slots") {
			return cli.Usage(errors.New("give --plan, --tenant-slots or both"))
		}
		if err := checkSlots(slots); err != nil {
			return err
		}
		changed, err := store.ChangePlan(ctx, acc.ID, plan, slots)
		if err != nil {
			return err
		}
		return cli.Show(cmd, standingOf(changed))
	})
	cmd.Flags().StringVar(&plan, "plan", "", planNames())
	cmd.Flags().IntVar(&slots, "tenant-slots", 0, "tenants the account may hold; 0 is the plan's number")
	return cmd
}

func suspendCommand() *cobra.Command {
	return accountAct(&cobra.Command{
		Use:   "suspend --account ACCOUNT",
		Short: "Refuse all requests of an account, until it is resumed",
		Long: "Suspends an account: each of its requests is answered with 402 no_api_plan from now on. Nothing is lost:\n" +
			"keys, tenants and everything below them stay as they are. Send limits go on: mailboxes are blocked, and\n" +
			"released when their day is over, as ever. `account resume` ends it.",
	}, setActive(false))
}

func resumeCommand() *cobra.Command {
	return accountAct(&cobra.Command{
		Use:   "resume --account ACCOUNT",
		Short: "Let a suspended account go on",
	}, setActive(true))
}

func setActive(active bool) func(context.Context, *cobra.Command, *bunstore.Store, access.Account) error {
	return func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		changed, err := store.SetActive(ctx, acc.ID, active)
		if err != nil {
			return err
		}
		return cli.Show(cmd, standingOf(changed))
	}
}
