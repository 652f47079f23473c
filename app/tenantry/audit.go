// SPDX-License-Identifier: Apache-2.0

package main

// The record of what operators did. Acts on accounts, keys and tenants are
// recorded by the store, in the transaction that acts. A command that acts on
// something else (plugins, the keyset, a backup) calls recordAct when it is
// done.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// recordAct records an act on something outside the database, if there is a
// database: it makes none, and leaves one alone that was never migrated.
// details says what was done, and never holds a secret.
func recordAct(ctx context.Context, c settings.Config, action audit.Action, details map[string]string) error {
	if path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://"); embedded {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Operator: c.Operator})
	if err != nil {
		return unrecorded(action, err)
	}
	kept, err := store.KeepsAudit(ctx)
	if err == nil && kept {
		err = store.RecordAct(ctx, action, details)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return unrecorded(action, err)
	}
	return nil
}

func unrecorded(action audit.Action, err error) error {
	return cli.WithFix(fmt.Errorf("%s is done, but could not be recorded: %w", action, err), "look at the database settings; the act itself needs no repeating")
}

type eventRow struct {
	EventID   string            `json:"event_id"`
	Operator  string            `json:"operator"`
	Action    string            `json:"action"`
	AccountID *string           `json:"account_id"`
	Details   map[string]string `json:"details"`
	CreatedAt string            `json:"created_at"`
}

func eventOf(e audit.Event) eventRow {
	row := eventRow{EventID: e.ID, Operator: e.Operator, Action: string(e.Action), Details: e.Details, CreatedAt: cli.Stamp(e.At)}
	if e.Account != "" {
		row.AccountID = (*string)(&e.Account)
	}
	return row
}

func (r eventRow) Columns() [][2]string {
	on := "-"
	if r.AccountID != nil {
		on = *r.AccountID
	}
	var details []string
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		details = append(details, name+"="+r.Details[name])
	}
	return [][2]string{
		{"WHEN", r.CreatedAt}, {"OPERATOR", r.Operator}, {"ACTION", r.Action}, {"ACCOUNT", on}, {"DETAILS", strings.Join(details, ", ")},
	}
}

func auditCommand() *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "What operators did"}
	var on, since string
	var limit int
	events := &cobra.Command{
		Use:   "list",
		Short: "List what operators did: who, when and what, newest first",
		Long: "Lists the acts of operators, newest first: who did what, and when. An act is recorded together with\n" +
			"its effect, or both are not there. What was refused, or only looked at, is not listed.\n\n" +
			"The operator is the system's user and host (the person behind sudo), or what the setting `operator` says.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			query := ports.AuditQuery{Limit: limit}
			var err error
			if query.Since, err = sinceTime(since, time.Now()); err != nil || limit < 1 {
				return cli.Usage(errors.Join(err, positive("limit", limit)))
			}
			if query.Account, err = optionalAccount(ctx, store, on); err != nil {
				return err
			}
			found, err := store.AuditEvents(ctx, query)
			if err != nil {
				return err
			}
			rows := make([]eventRow, len(found))
			for i, e := range found {
				rows[i] = eventOf(e)
			}
			return cli.List(cmd, "events", rows)
		}),
	}
	events.Flags().StringVar(&on, "account", "", "only acts on this account: its id or e-mail address")
	events.Flags().StringVar(&since, "since", "", "only acts since then: 2026-11-21, 2026-11-21T08:00:00Z, or 24h for the last day")
	events.Flags().IntVar(&limit, "limit", 100, "at most so many")
	settings.Config{}.AddFlags(events.Flags())
	group.AddCommand(events)
	return group
}

// optionalAccount is the id of the account that a flag names, or "" when the
// flag is not given.
func optionalAccount(ctx context.Context, store *bunstore.Store, idOrEmail string) (access.AccountID, error) {
	if idOrEmail == "" {
		return "", nil
	}
	acc, err := store.FindAccount(ctx, idOrEmail)
	return acc.ID, err
}

func positive(flag string, value int) error {
	if value < 1 {
		return fmt.Errorf("--%s is at least 1", flag)
	}
	return nil
}

// sinceTime reads a point in time: a day, an instant, or how long ago. All
// days are UTC, as everything that is shown.
func sinceTime(raw string, now time.Time) (time.Time, error) {
	if raw == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, raw); err == nil {
			return at, nil
		}
	}
	if ago, err := time.ParseDuration(raw); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("--since takes 2026-11-21, 2026-11-21T08:00:00Z or 24h, not %q", raw)
}
