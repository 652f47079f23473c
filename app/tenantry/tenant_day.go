// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "time/tzdata" // replicas know the same time zones, wherever they run

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

func tenantDayCommand() *cobra.Command {
	var guid, zone string
	cmd := &cobra.Command{
		Use:   "day --tenant GUID [--time-zone ZONE]",
		Short: "Show or set the time zone in which a tenant's days begin",
		Long: "Daily send limits count by days, and a day begins at midnight in UTC unless this says otherwise. With another\n" +
			"time zone the day of the tenant is counted anew from its beginning; mailboxes that are blocked stay so until then.\n" +
			"Without --time-zone it shows the present one.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			id := tenant.LookupGUID(guid)
			place, owner, err := tenantDay(ctx, store, id, zone)
			if err != nil {
				return err
			}
			return cli.Show(cmd, dayRow{string(id), string(owner), place})
		}),
	}
	cmd.Flags().StringVar(&guid, "tenant", "", tenantHelp)
	cmd.Flags().StringVar(&zone, "time-zone", "", "the IANA name of a time zone, such as Europe/Berlin")
	cli.Require(cmd, "tenant")
	return cmd
}

func tenantDay(ctx context.Context, store *bunstore.Store, id tenant.GUID, zone string) (string, access.AccountID, error) {
	if zone == "" {
		return store.Day(ctx, id)
	}
	if _, err := sendlimit.Place(zone); err != nil {
		return "", "", cli.Usage(err)
	}
	owner, err := store.SetDay(ctx, id, zone)
	return zone, owner, err
}

type dayRow struct {
	TenantID  string `json:"tenant_id"`
	AccountID string `json:"account_id"`
	TimeZone  string `json:"time_zone"`
}

func (r dayRow) Columns() [][2]string {
	return [][2]string{{"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"TIME ZONE", r.TimeZone}}
}
