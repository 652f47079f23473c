// SPDX-License-Identifier: Apache-2.0

// Package doctor implements `tenantry doctor`. The command checks what `tenantry serve` needs, with
// the same settings, and reports each problem with a fix. It changes nothing.
//
// Command returns the cobra command. The command creates an examination, which runs all checks in
// parallel and returns a report. A check is a method of examination that returns a finding. The
// variable checks lists all checks.
//
//   - doctor.go: Command, and the report as a table or as JSON. Start here.
//   - run.go: examination, finding, the list of checks, and how they run.
//   - check_database.go: the database, its migrations, and Redis.
//   - check_credentials.go: secrets, certificates, and the keyset of encryption keys.
//   - check_plugins.go: the plugin catalog, whether each plugin starts, and the settings of
//     providers.
//   - check_mail.go: the mail platform and its settings.
//   - check_network.go: DNS resolution, and the public URL.
//   - check_clock.go: the clock of this machine.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

// The statuses of a check and of a whole report. A report has the worst status of its checks.
const (
	// OK means that the check found no problem.
	OK = "ok"
	// Warning means that the service can run, but the operator should act. A check that was skipped
	// is also a warning.
	Warning = "warning"
	// Failed means that the service does not start, or that a part of it does not work.
	Failed = "failed"
)

type checkResult struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	Summary    string `json:"summary"`
	Fix        string `json:"fix"`
	DurationMS int64  `json:"duration_ms"`
}

type report struct {
	Status  string        `json:"status"`
	Version string        `json:"version"`
	Checks  []checkResult `json:"checks"`
}

// Command returns the command `tenantry doctor`. The command fails when the settings cannot be
// read, or when a setting is invalid and no check reports it. It fails with cli.ErrReported when a
// check failed.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what the service needs, and show what is wrong and how to fix it",
		Long: "Checks what `tenantry serve` needs, with the same settings: database, migrations, keyset, public\n" +
			"URL, plugins, mail platform, DNS, Redis, clock, certificates and secrets. It changes nothing, and can be run\n" +
			"at any time, even while the service is running. The exit code is 1 when a check failed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := settings.Read(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			e, err := newExamination(r.Config)
			if err != nil {
				return cli.UsageError(err)
			}
			report := e.run(cmd.Context())
			if cli.WantsJSON(cmd) {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = report.print(cmd.OutOrStdout())
			}
			if err == nil && report.Status == Failed {
				err = cli.ErrReported
			}
			return err
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// print writes the report as a table, with the fix below the summary of a check.
func (r report) print(w io.Writer) error {
	counts := map[string]int{}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, result := range r.Checks {
		counts[result.Status]++
		linePrefix := result.Status + "\t" + result.ID
		for _, line := range wrapText(result.Summary) {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", linePrefix, line)
			linePrefix = "\t"
		}
		if result.Fix == "" {
			continue
		}
		for _, line := range wrapText("fix: " + result.Fix) {
			_, _ = fmt.Fprintf(table, "\t\t%s\n", line)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ntenantry %s: %s\n", r.Version, statusCounts(counts))
	return err
}

// wrapText breaks a text into lines that fit next to the status and the id columns.
func wrapText(text string) []string {
	const width = 96
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// statusCounts returns the number of checks for each status as text: "1 failed, 2 warnings, 7 ok".
func statusCounts(counts map[string]int) string {
	var parts []string
	for _, status := range []string{Failed, Warning, OK} {
		n, word := counts[status], status
		if status == Warning && n > 1 {
			word += "s"
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(parts, ", ")
}
