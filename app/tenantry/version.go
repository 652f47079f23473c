// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
)

// version and commit are set by the linker in `make build`.
var version, commit = "0.1.0-dev", "unknown"

type versionRow struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func (v versionRow) Columns() [][2]string {
	return [][2]string{{"tenantry", v.Version}, {"commit", v.Commit}, {"go", v.Go}}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Show(cmd, versionRow{version, commit, runtime.Version()})
		},
	}
}
