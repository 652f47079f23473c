// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

type eventRow struct {
	EventID   string            `json:"event_id"`
	Operator  string            `json:"operator"`
	Action    string            `json:"action"`
	AccountID *string           `json:"account_id"`
	Details   map[string]string `json:"details"`
	CreatedAt string            `json:"created_at"`
}

func newEventRow(e audit.Event) eventRow {
	row := eventRow{EventID: e.ID, Operator: e.Operator, Action: string(e.Action), Details: e.Details, CreatedAt: cli.FormatTime(e.At)}
	if e.Account != "" {
		row.AccountID = (*string)(&e.Account)
	}
	return row
}

// Columns implements cli.Row.
func (r eventRow) Columns() [][2]string {
	var details []string
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		details = append(details, name+"="+r.Details[name])
	}
	return [][2]string{
		{"WHEN", r.CreatedAt}, {"OPERATOR", r.Operator}, {"ACTION", r.Action}, {"ACCOUNT", orDash(r.AccountID)}, {"DETAILS", strings.Join(details, ", ")},
	}
}

// auditCommand returns the group of commands on the audit log. A command whose action the store
// does not record, such as a change of plugins or of the keyset, calls wiring.RecordAction
// afterwards.
func auditCommand() *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "The audit log: actions of operators, and the proof of a customer's export"}
	var account, since string
	var limit int
	list := &cobra.Command{
		Use:   "list",
		Short: "List the actions of operators, newest first",
		Long: "Lists the actions of operators, newest first: who did what, and when. A change of an account, a key, a tenant\n" +
			"or a DNS connection is recorded in the transaction of the change. All other actions are recorded after they are\n" +
			"done. Commands that were rejected or only showed data are not listed.\n\n" +
			"The operator is the system's user and host (the person behind sudo), or the value of the setting `operator`.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			query := ports.AuditQuery{Limit: limit}
			var err error
			query.Since, err = parseSince(since, time.Now())
			if limit < 1 {
				err = errors.Join(err, fmt.Errorf("--limit must be at least 1, not %d", limit))
			}
			if err != nil {
				return cli.UsageError(err)
			}
			if query.Account, err = findOptionalAccount(ctx, store, account); err != nil {
				return err
			}
			auditEvents, err := store.AuditEvents(ctx, query)
			if err != nil {
				return err
			}
			rows := make([]eventRow, len(auditEvents))
			for i, e := range auditEvents {
				rows[i] = newEventRow(e)
			}
			return cli.List(cmd, "events", rows)
		}),
	}
	list.Flags().StringVar(&account, "account", "", "only actions on this account: its id or e-mail address")
	list.Flags().StringVar(&since, "since", "", "only actions since this time: 2026-11-21, 2026-11-21T08:00:00Z, or 24h for the last day")
	list.Flags().IntVar(&limit, "limit", 100, "maximum number of actions to list")
	settings.Config{}.AddFlags(list.Flags())
	group.AddCommand(list, auditVerifyCommand())
	return group
}

// parseSince parses the value of --since: a date, an RFC 3339 time, or a duration before now. A
// date begins at midnight in UTC. An empty value is the zero time.
func parseSince(raw string, now time.Time) (time.Time, error) {
	if raw == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if parsed, err := time.Parse(layout, raw); err == nil {
			return parsed, nil
		}
	}
	if ago, err := time.ParseDuration(raw); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("--since must be a date, a time or a duration, such as 2026-11-21, 2026-11-21T08:00:00Z or 24h, not %q", raw)
}
