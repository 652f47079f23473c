// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/app/cli"
)

type manifestRow struct {
	File   string `json:"file"`
	Files  int    `json:"files"`
	SHA256 string `json:"sha256"`
}

// Columns implements cli.Row.
func (r manifestRow) Columns() [][2]string {
	return [][2]string{{"FILE", r.File}, {"FILES", strconv.Itoa(r.Files)}, {"SHA-256", r.SHA256}}
}

func pluginManifestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manifest ENTRY [PATH…]",
		Short: "Write the manifest of a plugin: its files with their checksums",
		Long: "Writes " + verified.ManifestFile + " beside ENTRY, the file that starts a plugin. The manifest lists ENTRY and the\n" +
			"files of the PATHs with their SHA-256. A PATH is a file or a folder, relative to the folder of ENTRY. Below a\n" +
			"PATH, the manifest leaves out symbolic links, names that begin with a dot, and folders named __pycache__. A PATH\n" +
			"that is one of these is refused. `tenantry plugin add ENTRY` then adds the listed files and no others. The\n" +
			"checksum of the catalog covers each of them. Write the manifest again after each change.",
		Args: cli.AtLeastOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := verified.WriteManifest(args[0], args[1:])
			if err != nil {
				return cli.WithFix(err, "name existing files and folders in the folder of ENTRY, and no symbolic links, names that begin with a dot or __pycache__")
			}
			_, sum, err := verified.Source(args[0])
			if err != nil {
				return err
			}
			row := manifestRow{filepath.Join(filepath.Dir(args[0]), verified.ManifestFile), len(m.Files), sum}
			return cli.List(cmd, "manifests", []manifestRow{row})
		},
	}
}
