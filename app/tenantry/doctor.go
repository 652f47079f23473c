// SPDX-License-Identifier: Apache-2.0

package main

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

// The states of a check and of all together.
const (
	isOK      = "ok"
	isWarning = "warning"
	isFailed  = "failed"
)

// diagnosis is how one check ended.
type diagnosis struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	Summary    string `json:"summary"`
	Fix        string `json:"fix"`
	DurationMS int64  `json:"duration_ms"`
}

// report is what doctor found.
type report struct {
	Status  string      `json:"status"`
	Version string      `json:"version"`
	Checks  []diagnosis `json:"checks"`
}

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything the service needs, and say what is wrong and how to fix it",
		Long: "Looks at everything that `tenantry serve` needs, with the same settings: database, migrations, keyset, public\n" +
			"URL, plugins, mail platform, DNS, Redis, clock, certificates and secrets. It changes nothing, and may be run\n" +
			"at any time, also beside the running service. The exit code is 1 when a check failed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := settings.Read(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			e, err := newExamination(r.Config)
			if err != nil {
				return cli.Usage(err)
			}
			found := e.run(cmd.Context())
			if cli.JSONWanted(cmd) {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(found)
			} else {
				err = found.print(cmd.OutOrStdout())
			}
			if err == nil && found.Status == isFailed {
				err = cli.ErrReported
			}
			return err
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// print writes a table with the fix under each line that is not ok.
func (r report) print(w io.Writer) error {
	count := map[string]int{}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range r.Checks {
		count[d.Status]++
		first := d.Status + "\t" + d.ID
		for _, line := range wrapped(d.Summary) {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", first, line)
			first = "\t"
		}
		if d.Fix == "" {
			continue
		}
		for _, line := range wrapped("fix: " + d.Fix) {
			_, _ = fmt.Fprintf(table, "\t\t%s\n", line)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ntenantry %s: %s\n", r.Version, counted(count))
	return err
}

// wrapped breaks a text into lines that fit beside status and id.
func wrapped(text string) []string {
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

// counted puts the numbers of states into words.
func counted(count map[string]int) string {
	var parts []string
	for _, status := range []string{isFailed, isWarning, isOK} {
		n, word := count[status], status
		if status == isWarning && n > 1 {
			word += "s"
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(parts, ", ")
}
