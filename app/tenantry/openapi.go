// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/cli"
)

func openapiCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the API",
		RunE: func(cmd *cobra.Command, _ []string) error {
			document, err := httpapi.Document()
			if err != nil {
				return err
			}
			text := document.YAML
			if asJSON || cli.JSONWanted(cmd) {
				text = document.JSON
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON instead of YAML")
	return cmd
}
