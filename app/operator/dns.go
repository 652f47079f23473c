// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/dns"
)

func dnsCommand() *cobra.Command {
	group := &cobra.Command{Use: "dns", Short: "The DNS changes of provisioning runs"}
	cmd := undoDNSCommand()
	settings.Config{}.AddFlags(cmd.Flags())
	group.AddCommand(cmd)
	return group
}

func undoDNSCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "undo RUN [--yes]",
		Short: "Put back the DNS records that a provisioning run changed",
		Long: "Puts back the DNS records that a provisioning run changed. Values that the run added are removed, and values\n" +
			"that it replaced or removed are restored. A value that somebody changed since is left alone, and so is every\n" +
			"other record of the zone. RUN is the id of the run, as the API shows it.\n\n" +
			"Without --yes the command only shows what it would do. With --yes, the run's active jobs for the changed\n" +
			"domains are ended first, as failed, because they would write the records again. Its other jobs continue. A\n" +
			"worker that is executing a job of a changed domain must finish its step, so the command may ask you to try\n" +
			"again in a minute. The mail platform is not called.\n\n" +
			"If the command is interrupted, run it again. After a completed undo there is nothing left to undo.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return fmt.Errorf("%s requires the id of one run", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withService(func(ctx context.Context, cmd *cobra.Command, s *wiring.Service) error {
			status, undo := "planned", s.DNSUndo.Plan
			if yes {
				status, undo = "done", s.DNSUndo.Run
			}
			zones, err := undo(ctx, cmd.Flags().Arg(0))
			if err != nil {
				return err
			}
			rows := []undoRow{}
			for _, z := range zones {
				for _, i := range z.Items {
					rows = append(rows, newUndoRow(z.Domain.Name, z.Zone.Name, status, i))
				}
			}
			switch {
			case len(zones) == 0:
				cli.Warn(cmd, "nothing_to_undo", "the run changed no records, or it was undone before")
			case !yes:
				cli.Warn(cmd, "not_confirmed", "nothing was changed; add --yes to put the records back")
			}
			return cli.List(cmd, "records", rows)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "put the records back")
	return cmd
}

// undoRow shows what an undo does with one value. Values that are not text are escaped as in zone
// files.
type undoRow struct {
	DomainName string `json:"domain_name"`
	Zone       string `json:"zone"`
	Action     string `json:"action"`
	RecordType string `json:"record_type"`
	Name       string `json:"name"`
	Written    string `json:"written"`
	Previous   string `json:"previous"`
	Status     string `json:"status"`
}

func newUndoRow(domain, zone, status string, i dns.UndoItem) undoRow {
	return undoRow{domain, zone, string(i.Action), string(i.Type), i.Name, dns.EscapeText(i.Written), dns.EscapeText(i.Previous), status}
}

// Columns implements cli.Row.
func (r undoRow) Columns() [][2]string {
	return [][2]string{
		{"DOMAIN", r.DomainName}, {"ZONE", r.Zone}, {"ACTION", r.Action}, {"TYPE", r.RecordType}, {"NAME", r.Name},
		{"WRITTEN", cmp.Or(r.Written, "-")}, {"PREVIOUS", cmp.Or(r.Previous, "-")}, {"STATUS", r.Status},
	}
}
