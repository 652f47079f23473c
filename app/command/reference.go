// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

// pluginDoc is the part of a plugin's `describe` output that the page of settings needs.
type pluginDoc struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Fields []struct {
		Name     string `json:"name"`
		Secret   bool   `json:"secret"`
		Required bool   `json:"required"`
		Default  string `json:"default"`
		Help     string `json:"help"`
		Account  bool   `json:"account"`
	} `json:"fields"`
}

// referenceCommand returns the command `tenantry reference`. `make generate` writes its output to
// docs/configuration.md.
func referenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reference",
		Short:  "Print the page of all settings; standard input must be the output of each plugin's describe command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var plugins []pluginDoc
			for decoder := json.NewDecoder(cmd.InOrStdin()); ; {
				var plugin pluginDoc
				err := decoder.Decode(&plugin)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return fmt.Errorf("read descriptions: %w", err)
				}
				plugins = append(plugins, plugin)
			}
			if len(plugins) == 0 {
				return cli.UsageError(errors.New("standard input has no description of a plugin"))
			}
			_, err := io.WriteString(cmd.OutOrStdout(), referencePage(plugins))
			return err
		},
	}
}

const referenceHead = `<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by make generate from app/settings/settings.go and the plugins' descriptions. Do not edit. -->
# Configuration

tenantry starts without a settings file. Only some settings of providers are required, and the tables say so. The value of a setting comes from the last source in this list that sets it:

1. the default,
2. ` + "`tenantry.yaml`" + ` in the working directory, or the file that ` + "`--config`" + ` names,
3. the environment variable ` + "`TENANTRY_…`" + `,
4. the flag. Settings of providers have no flag.

For example, this file and these variables set the same values:

` + "```yaml" + `
public_url: https://tenantry.example
dns_resolvers: ["192.0.2.53:53", "192.0.2.54:53"]
providers:
  microsoft365:
    client_id: 00000000-0000-0000-0000-000000000000
    client_certificate_file: /etc/tenantry/microsoft365.pem
` + "```" + `

` + "```sh" + `
TENANTRY_PUBLIC_URL=https://tenantry.example
TENANTRY_DNS_RESOLVERS=192.0.2.53:53,192.0.2.54:53
TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=00000000-0000-0000-0000-000000000000
TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_CERTIFICATE_FILE=/etc/tenantry/microsoft365.pem
` + "```" + `

- ` + "`tenantry config`" + ` shows every setting, its value and the source of the value. It does not show secrets.
- ` + "`tenantry doctor`" + ` checks whether the settings work, for example whether the database answers, and says how to fix each problem.
- A name in the file that is not a setting is an error. A ` + "`TENANTRY_…`" + ` variable is an error if its name is similar to a setting, or begins with ` + "`TENANTRY_PROVIDERS_…`" + ` and names no setting of a provider.
  Any other unknown ` + "`TENANTRY_…`" + ` variable is only a warning, because orchestrators set variables with such names too.
- ` + "`tenantry serve`" + ` does not start if a provider has a setting that its plugin does not know.
- A duration is written as ` + "`30s`" + ` or ` + "`5m`" + `. The items of a list are separated by commas; in the file, a YAML list is possible too.
- The secret of a provider is never the value of a setting: the setting names a file that contains the secret.
- Traces are set up by the standard ` + "`OTEL_…`" + ` variables; see [operations.md](operations.md).
`

// referencePage returns the page of all settings, as Markdown.
func referencePage(plugins []pluginDoc) string {
	var page strings.Builder
	page.WriteString(referenceHead)
	for field := range settings.Fields() {
		if group := field.Tag.Get("group"); group != "" {
			fmt.Fprintf(&page, "\n## %s\n\n| Setting | Variable | Flag | Default | Meaning |\n|---|---|---|---|---|\n", group)
		}
		if field.Type.Kind() == reflect.Map {
			continue
		}
		key := field.Tag.Get("koanf")
		fmt.Fprintf(&page, "| `%s` | `%s` | `--%s` | %s | %s |\n", key, settings.VariableName(key), settings.FlagName(field), inCode(defaultOf(field)), escapeCell(field.Tag.Get("help")))
	}
	for _, plugin := range plugins {
		fmt.Fprintf(&page, "\n## Provider %s\n\nUnder `providers.%s` in the file; there are no flags.\n\n", plugin.Title, plugin.Name)
		page.WriteString("| Setting | Variable | Default | Meaning |\n|---|---|---|---|\n")
		for _, field := range plugin.Fields {
			if field.Account {
				continue // an account supplies the value with its connection
			}
			name, help := field.Name, field.Help
			if field.Secret {
				name, help = name+"_file", "file with the following content: "+help
			}
			if field.Required {
				help += " (required)"
			}
			fmt.Fprintf(&page, "| `%s` | `%s` | %s | %s |\n", name, settings.VariableName("providers."+plugin.Name+"."+name), inCode(field.Default), escapeCell(help))
		}
	}
	return page.String()
}

// defaultOf returns a setting's default in the notation of the settings file.
func defaultOf(field reflect.StructField) string {
	if value, ok := field.Tag.Lookup("default"); ok {
		return value
	}
	if field.Type.Kind() == reflect.String || field.Type.Kind() == reflect.Slice {
		return ""
	}
	return fmt.Sprint(reflect.Zero(field.Type).Interface())
}

func inCode(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

// escapeCell escapes a text for a cell of a Markdown table.
func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

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
			if asJSON || cli.WantsJSON(cmd) {
				text = document.JSON
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON instead of YAML")
	return cmd
}

type versionRow struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Columns implements cli.Row.
func (v versionRow) Columns() [][2]string {
	return [][2]string{{"tenantry", v.Version}, {"commit", v.Commit}, {"go", v.Go}}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Show(cmd, versionRow{cli.Version, cli.Commit, runtime.Version()})
		},
	}
}
