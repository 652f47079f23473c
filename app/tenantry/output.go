// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// The exit codes of every command.
const (
	exitRefused  = 1
	exitUsage    = 2
	exitNotFound = 3
	exitOutside  = 4
)

// failure is an error with what the operator can do about it.
type failure struct {
	err error
	fix string
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// usageError is a command line that makes no sense.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// errReported ends a command that has printed why it fails.
var errReported = errors.New("reported")

func exitCode(err error) int {
	var usage usageError
	var out outsideError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &out):
		return exitOutside
	case outcome.Of(err) == outcome.Refused:
		return exitRefused
	case outcome.Of(err) != 0:
		return exitOutside
	}
	switch fault.Of(err).Code.Kind {
	case fault.NotFound:
		return exitNotFound
	case fault.Unavailable, fault.Timeout, fault.BadGateway:
		return exitOutside
	default:
		return exitRefused
	}
}

// fixes are what an operator does about a refusal whose page is written for
// callers of the API, or would say the same again.
var fixes = map[string]string{
	fault.InvalidRequest.Name:        "correct it and run the command again; --help says what it takes",
	fault.AccountNotFound.Name:       "`tenantry account list` shows all accounts",
	fault.KeyNotFound.Name:           "`tenantry key list` shows the ids",
	fault.DNSConnectionNotFound.Name: "`tenantry dns-connection list` shows the ids",
	fault.TenantNotFound.Name:        "`tenantry tenant list` shows the tenants that are held, and which of them are managed",
	fault.TenantHeld.Name:            "`tenantry tenant list` shows who holds it; it has to be released there first",
	fault.TenantLimitReached.Name:    "give the account more: `tenantry account plan`, with --plan or --tenant-slots",
	fault.AccessDenied.Name:          "the tenant's administrator has to consent to the application first, or again",
	fault.ServiceUnavailable.Name:    "`tenantry doctor` says what is missing",
	fault.ProviderError.Name:         "run the command again; `tenantry doctor` asks the mail platform too",
	fault.ProviderUnavailable.Name:   "run the command again in some minutes; `tenantry doctor` asks the mail platform too",
	fault.ProviderTimeout.Name:       "run the command again in some minutes; `tenantry doctor` asks the mail platform too",
}

// fixUser is for files that belong to somebody else.
const fixUser = "run the command as the user of the service, or let that user read and write the file"

// fixRights is for a database whose user may not do what it is asked to.
const fixRights = "give the database's user the right that it lacks: `tenantry migrate` makes tables, the service reads and writes them"

// printError writes err for people, or as {"error": …} with --output json.
func printError(w io.Writer, cmd *cobra.Command, asJSON bool, err error) {
	if errors.Is(err, errReported) {
		return
	}
	code, message, fix := "failed", err.Error(), ""
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		code, message, fix = refusal.Code.Name, refusal.Detail, cmp.Or(fixes[refusal.Code.Name], refusal.Code.About)
	}
	var usage usageError
	if errors.As(err, &usage) {
		code, fix = "usage", "`"+cmd.CommandPath()+" --help` says what it takes"
	}
	var wrong settingError
	if errors.As(err, &wrong) {
		fix = "`tenantry config` shows every setting, its value and where that comes from"
	}
	if errors.Is(err, fs.ErrPermission) {
		fix = fixUser
	}
	if bunstore.Forbidden(err) {
		fix = fixRights
	}
	var f failure
	if errors.As(err, &f) {
		fix = f.fix
	}
	if asJSON {
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message, "fix": fix}})
		return
	}
	_, _ = fmt.Fprintf(w, "tenantry: %s\n", message)
	if fix != "" {
		_, _ = fmt.Fprintf(w, "%s\n", fix)
	}
}

// row is one thing that a command shows: its JSON shape, and the columns that
// people read.
type row interface {
	columns() [][2]string
}

// show prints one thing on standard output.
func show(cmd *cobra.Command, r row) error {
	if jsonWanted(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, column := range r.columns() {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", column[0], printable(column[1]))
	}
	return table.Flush()
}

// list prints several things: a table, or {name: […], "count": n} as JSON.
func list[R row](cmd *cobra.Command, name string, rows []R) error {
	if jsonWanted(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{name: rows, "count": len(rows)})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "there are no %s\n", name)
		return err
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for i, r := range rows {
		var names, cells []string
		for _, column := range r.columns() {
			names, cells = append(names, column[0]), append(cells, printable(column[1]))
		}
		if i == 0 {
			_, _ = fmt.Fprintln(table, strings.Join(names, "\t"))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// printable keeps what providers say from moving the cursor or the columns.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func jsonWanted(cmd *cobra.Command) bool {
	format, err := cmd.Flags().GetString("output")
	return err == nil && format == "json"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
