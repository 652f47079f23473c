// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// Row is an object that a command prints. With --output json it is encoded by encoding/json.
type Row interface {
	// Columns returns the title and the text of each column for this object.
	Columns() [][2]string
}

// Show prints one object on standard output: as a table with a line for each column, or as JSON.
func Show(cmd *cobra.Command, row Row) error {
	if WantsJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(row)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, column := range row.Columns() {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", column[0], Printable(column[1]))
	}
	return table.Flush()
}

// List prints several objects on standard output: as a table, or as {name: […], "count": n} with
// --output json. name is the plural of the objects, such as "accounts".
func List[R Row](cmd *cobra.Command, name string, rows []R) error {
	if WantsJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{name: rows, "count": len(rows)})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "there are no %s\n", name)
		return err
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for i, r := range rows {
		var names, cells []string
		for _, column := range r.Columns() {
			names, cells = append(names, column[0]), append(cells, Printable(column[1]))
		}
		if i == 0 {
			_, _ = fmt.Fprintln(table, strings.Join(names, "\t"))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// Printable replaces characters that are not printable, such as control characters. A text from a
// provider then cannot move the terminal's cursor or break a table.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// WantsJSON reports whether the command was called with --output json.
func WantsJSON(cmd *cobra.Command) bool {
	format, err := cmd.Flags().GetString("output")
	return err == nil && format == "json"
}

// FormatTime formats a time as RFC 3339 in UTC.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Warn prints a warning on standard error: as text, or as {"warning": {"code", "message"}} with
// --output json. The command continues.
func Warn(cmd *cobra.Command, code, message string) {
	if WantsJSON(cmd) {
		_ = json.NewEncoder(cmd.ErrOrStderr()).Encode(map[string]any{"warning": map[string]string{"code": code, "message": message}})
		return
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "tenantry: warning: %s\n", message)
}

// FirstLine returns the first line of the text of err. Joined errors have one line for each error.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
