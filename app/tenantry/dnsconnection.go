// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/settings"
)

func dnsConnectionCommand() *cobra.Command {
	group := &cobra.Command{Use: "dns-connection", Short: "Connections of accounts to DNS providers"}
	for _, cmd := range []*cobra.Command{
		addDNSConnectionCommand(), listDNSConnectionsCommand(), testDNSConnectionCommand(), removeDNSConnectionCommand(),
	} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func listDNSConnectionsCommand() *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List DNS connections, oldest first; never their credentials",
		Long: "Lists the DNS connections of one account, or of all, oldest first. What it says is stored: how the last\n" +
			"test ended and how many zones it saw. The providers are not asked; `dns-connection test` does that.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			owner, err := optionalAccount(ctx, store, on)
			if err != nil {
				return err
			}
			all, err := (&dnsconnections.Service{Connections: store}).List(ctx, owner)
			if err != nil {
				return err
			}
			rows := make([]dnsConnectionRow, len(all))
			for i, c := range all {
				rows[i] = dnsConnectionOf(c)
			}
			return cli.List(cmd, "connections", rows)
		}),
	}
	cmd.Flags().StringVar(&on, "account", "", "only connections of this account: its id or e-mail address")
	return cmd
}

func testDNSConnectionCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "test --connection CONNECTION",
		Short: "Ask the provider whether it still takes the credential, and store the answer",
		Long: "Signs in to the provider with the stored credential and counts the zones that it reaches. How that ends is\n" +
			"stored as the connection's status. Nothing is written into a zone. A test that fails ends with exit code 4.",
		RunE: withDNSProviders(func(ctx context.Context, cmd *cobra.Command, desk dnsDesk) error {
			c, err := desk.service.Test(ctx, "", id)
			if err != nil {
				return testFailed(c.Provider, err)
			}
			return cli.Show(cmd, dnsConnectionOf(c))
		}),
	}
	namedDNSConnection(cmd, &id)
	return cmd
}

func removeDNSConnectionCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "remove --connection CONNECTION",
		Short: "Remove a DNS connection and its credential for good",
		Long: "Removes a connection with its credential from the database. Records that were written with it stay in their\n" +
			"zones, and the provider is not asked: revoke the credential there too.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := (&dnsconnections.Service{Connections: store}).Remove(ctx, id)
			if err != nil {
				return err
			}
			return cli.Show(cmd, removedConnectionRow{c.ID, string(c.AccountID), c.Provider, c.Name, "removed", cli.Stamp(time.Now())})
		}),
	}
	namedDNSConnection(cmd, &id)
	return cmd
}

// namedDNSConnection gives a command the flag that names a connection.
func namedDNSConnection(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "connection", "", "the connection's id, as dns-connection list shows it")
	cli.Require(cmd, "connection")
}
