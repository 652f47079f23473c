// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/dnsconnection"
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
	var account string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List DNS connections, oldest first; never their credentials",
		Long: "Lists the DNS connections of one account, or of all accounts, oldest first. It shows stored data: how the last\n" +
			"test ended and how many zones it found. The providers are not called; `dns-connection test` calls them.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			owner, err := findOptionalAccount(ctx, store, account)
			if err != nil {
				return err
			}
			connections, err := (&dnsconnections.Service{Connections: store}).List(ctx, owner)
			if err != nil {
				return err
			}
			rows := make([]dnsConnectionRow, len(connections))
			for i, c := range connections {
				rows[i] = newDNSConnectionRow(c)
			}
			return cli.List(cmd, "connections", rows)
		}),
	}
	cmd.Flags().StringVar(&account, "account", "", "only connections of this account: its id or e-mail address")
	return cmd
}

func testDNSConnectionCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "test --connection CONNECTION",
		Short: "Test the stored credential at the provider, and store the result",
		Long: "Signs in to the provider with the stored credential and counts the zones that it reaches. The result is\n" +
			"stored as the connection's status. Nothing is written to a zone. If the provider call fails, the exit code is 4.",
		RunE: withDNSDependencies(func(ctx context.Context, cmd *cobra.Command, deps dnsDependencies) error {
			c, err := deps.connections.Test(ctx, "", id)
			if err != nil {
				return explainTestError(c.Provider, err)
			}
			return cli.Show(cmd, newDNSConnectionRow(c))
		}),
	}
	requireConnectionFlag(cmd, &id)
	return cmd
}

func removeDNSConnectionCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "remove --connection CONNECTION",
		Short: "Remove a DNS connection and its credential permanently",
		Long: "Removes a connection with its credential from the database. Records that were written with it stay in their\n" +
			"zones. The provider is not called, so revoke the credential at the provider too.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := (&dnsconnections.Service{Connections: store}).Remove(ctx, id)
			if err != nil {
				return err
			}
			return cli.Show(cmd, removedDNSConnectionRow{c.ID, string(c.AccountID), c.Provider, c.Name, "removed", cli.FormatTime(time.Now())})
		}),
	}
	requireConnectionFlag(cmd, &id)
	return cmd
}

func requireConnectionFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "connection", "", "the connection's id, as dns-connection list shows it")
	cli.RequireFlags(cmd, "connection")
}

// dnsDependencies holds the services of a command that calls DNS providers.
type dnsDependencies struct {
	store       *bunstore.Store
	providers   *wiring.DNSProviders
	connections *dnsconnections.Service
}

// withDNSDependencies returns a RunE that opens the database, the keyset and the provider plugins,
// and calls run with them.
func withDNSDependencies(run func(context.Context, *cobra.Command, dnsDependencies) error) func(*cobra.Command, []string) error {
	return withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) (err error) {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.UsageError(err)
		}
		// The command creates a missing keyset only for an embedded database. With a database
		// server, the service may run on another host with its own keyset. That service could not
		// decrypt a secret that a new keyset encrypted.
		embedded := strings.HasPrefix(c.DatabaseURL, "sqlite:")
		sealer, err := wiring.OpenKeyset(ctx, c, store, embedded)
		if err != nil {
			return err
		}
		providers, closeAll, err := wiring.OpenDNSProviders(ctx, c, sealer, commandLog(cmd, c.Level()))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeAll()) }()
		return run(ctx, cmd, dnsDependencies{store, providers, &dnsconnections.Service{
			Connections: store, Providers: providers, Sealer: sealer, Now: time.Now,
		}})
	})
}

type dnsConnectionRow struct {
	ConnectionID string `json:"connection_id"`
	AccountID    string `json:"account_id"`
	Provider     string `json:"provider"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	ZonesVisible int    `json:"zones_visible"`
	TestedAt     string `json:"tested_at"`
	CreatedAt    string `json:"created_at"`
}

func newDNSConnectionRow(c dnsconnection.Connection) dnsConnectionRow {
	return dnsConnectionRow{
		c.ID, string(c.AccountID), c.Provider, c.Name, string(c.Status), c.ZonesVisible, cli.FormatTime(c.TestedAt), cli.FormatTime(c.CreatedAt),
	}
}

// Columns implements cli.Row.
func (r dnsConnectionRow) Columns() [][2]string {
	return [][2]string{
		{"CONNECTION", r.ConnectionID}, {"ACCOUNT", r.AccountID}, {"PROVIDER", r.Provider}, {"NAME", cmp.Or(r.Name, "-")},
		{"STATUS", r.Status}, {"ZONES", strconv.Itoa(r.ZonesVisible)}, {"TESTED", r.TestedAt}, {"CREATED", r.CreatedAt},
	}
}

type removedDNSConnectionRow struct {
	ConnectionID string `json:"connection_id"`
	AccountID    string `json:"account_id"`
	Provider     string `json:"provider"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	RemovedAt    string `json:"removed_at"`
}

// Columns implements cli.Row.
func (r removedDNSConnectionRow) Columns() [][2]string {
	return [][2]string{
		{"CONNECTION", r.ConnectionID}, {"ACCOUNT", r.AccountID}, {"PROVIDER", r.Provider}, {"NAME", cmp.Or(r.Name, "-")},
		{"STATUS", r.Status}, {"REMOVED", r.RemovedAt},
	}
}
