// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/plugins/template"
)

type writtenPluginRow struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Language string   `json:"language"`
	Folder   string   `json:"folder"`
	Module   *string  `json:"module"` // null unless the language is Go
	Files    []string `json:"files"`

	build []string // the commands that build the plugin
}

// Columns implements cli.Row.
func (r writtenPluginRow) Columns() [][2]string {
	name := filepath.Base(r.Folder) // the folder and the program in it have this name
	columns := [][2]string{
		{"FOLDER", r.Folder}, {"KIND", r.Kind}, {"NAME", r.Name}, {"LANGUAGE", r.Language}, {"MODULE", orDash(r.Module)},
		{"FILES", strings.Join(r.Files, " ")}, {"THEN", "cd " + name},
	}
	for _, command := range r.build {
		columns = append(columns, [2]string{"", command})
	}
	return append(columns, [2]string{"", "tenantry plugin test ./" + name}, [2]string{"", "tenantry dev --plugin ."})
}

func pluginNewCommand() *cobra.Command {
	var o template.Options
	cmd := &cobra.Command{
		Use:   "new KIND NAME",
		Short: "Write a working plugin as the start of a new plugin",
		Long: "Writes a plugin for a new provider into the new folder KIND-NAME, in the current folder. KIND is " + strings.Join(template.Kinds, ", ") + ".\n" +
			"NAME is the id of the provider: 2 to 31 lower-case letters and digits, beginning with a letter. The plugin works\n" +
			"as it is, with an invented API and a simulator of this API. It has tests, a README and a file for continuous\n" +
			"integration. You do not have to rename anything. The README says what to replace for a real provider.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%s requires the kind and the name of the plugin", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Kind, o.Name = args[0], args[1]
			if err := chooseSDK(&o); err != nil {
				return err
			}
			parent, err := filepath.Abs(".")
			if err != nil {
				return err
			}
			o.Parent = parent
			written, err := template.New(o)
			if errors.Is(err, template.ErrOptions) {
				return cli.UsageError(err)
			}
			if err != nil {
				return err
			}
			row := writtenPluginRow{Kind: o.Kind, Name: o.Name, Language: o.Language, Folder: written.Folder, Files: written.Files, build: written.Build}
			if written.Module != "" {
				row.Module = &written.Module
			}
			return cli.Show(cmd, row)
		},
	}
	cmd.Flags().StringVar(&o.Language, "language", template.DefaultLanguage, "language of the plugin: "+strings.Join(template.Languages, ", "))
	cmd.Flags().StringVar(&o.Module, "module", "", "path of the Go module; KIND-NAME unless set")
	cmd.Flags().StringVar(&o.Source, "source", "", "folder with the source code of tenantry, for a plugin in Go that uses this code instead of a release")
	return cmd
}

// chooseSDK sets which version of tenantry's SDK a plugin in Go uses: the source code in the folder
// of --source, or this release. If this program is not a release, the plugin uses the checkout that
// contains the program.
func chooseSDK(o *template.Options) error {
	if o.Source != "" {
		folder, err := filepath.Abs(o.Source)
		if err != nil {
			return err
		}
		if !isCheckout(folder) {
			return cli.UsageError(fmt.Errorf("--source: %s does not have the source code of tenantry", folder))
		}
		o.Source = folder
		return nil
	}
	if !strings.Contains(cli.Version, "-") {
		o.Version = cli.Version
		return nil
	}
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return err
	}
	for folder := filepath.Dir(program); ; folder = filepath.Dir(folder) {
		if isCheckout(folder) {
			o.Source = folder
			return nil
		}
		if folder == filepath.Dir(folder) {
			return nil // template.New reports what is missing
		}
	}
}

// isCheckout reports whether a folder has the source code of tenantry.
func isCheckout(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+template.SDKModule+"\n")
}
