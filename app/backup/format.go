// SPDX-License-Identifier: Apache-2.0

package backup

// A backup is a gzip stream of JSON lines. With a passphrase, the whole stream is encrypted in the
// age format. The lines are:
//
//	{"tenantry_backup":1,"version":…,"created_at":…,"database":…,"migrations":[…]}
//	{"keyset":"…"}
//	{"table":"plans","columns":[{"name":…,"kind":…}…]}
//	["complete",100,true]            a row, in the order of the columns
//	…
//	{"manifest":{"tables":[{"table":…,"rows":…,"sha256":…}…],"sha256":…}}
//
// A table comes after the tables that its foreign keys refer to. The manifest is the last line and
// has a checksum of all lines before it. A file without a manifest is not a complete backup.

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
)

// backupFormat is the version of the format. It increases with each change that older releases
// cannot read.
const backupFormat = 1

type (
	// backupHeader is the first line.
	backupHeader struct {
		Format     int       `json:"tenantry_backup"`
		Version    string    `json:"version"`
		CreatedAt  time.Time `json:"created_at"`
		Database   string    `json:"database"`
		Migrations []string  `json:"migrations"`
	}
	// tableSum has the number of rows of one table and their checksum, without line breaks.
	tableSum struct {
		Table  string `json:"table"`
		Rows   int    `json:"rows"`
		SHA256 string `json:"sha256"`
	}
	// backupManifest is the last line. SHA256 is the checksum of all lines before it.
	backupManifest struct {
		Tables []tableSum `json:"tables"`
		SHA256 string     `json:"sha256"`
	}
	// sectionLine is a line with the keyset, the columns of a table, or the manifest.
	sectionLine struct {
		Keyset   string               `json:"keyset,omitempty"`
		Table    string               `json:"table,omitempty"`
		Columns  []maintenance.Column `json:"columns,omitempty"`
		Manifest *backupManifest      `json:"manifest,omitempty"`
	}
)

// manifestBuilder computes the manifest of a backup while its lines are written or read.
type manifestBuilder struct {
	contentHash hash.Hash // hash of all lines, with their line breaks
	tableHash   hash.Hash // hash of the rows of the current table, nil if there is no current table
	manifest    backupManifest
}

func newManifestBuilder() manifestBuilder { return manifestBuilder{contentHash: sha256.New()} }

func (b *manifestBuilder) addContent(text []byte) { b.contentHash.Write(text) }

func (b *manifestBuilder) beginTable(name string) {
	b.endTable()
	b.tableHash = sha256.New()
	b.manifest.Tables = append(b.manifest.Tables, tableSum{Table: name})
}

func (b *manifestBuilder) endTable() {
	if b.tableHash != nil {
		b.manifest.Tables[len(b.manifest.Tables)-1].SHA256 = hex.EncodeToString(b.tableHash.Sum(nil))
		b.tableHash = nil
	}
}

// addRow counts a row and adds it to the checksum of the current table. The caller must also call
// addContent with the row and its line break.
func (b *manifestBuilder) addRow(line []byte) {
	b.tableHash.Write(line)
	b.manifest.Tables[len(b.manifest.Tables)-1].Rows++
}

// build ends the current table and returns the manifest of all lines so far.
func (b *manifestBuilder) build() backupManifest {
	b.endTable()
	b.manifest.SHA256 = hex.EncodeToString(b.contentHash.Sum(nil))
	return b.manifest
}

func (m backupManifest) rows() (total int) {
	for _, t := range m.Tables {
		total += t.Rows
	}
	return total
}

// backupWriter writes the lines of a backup and computes their manifest.
type backupWriter struct {
	computed manifestBuilder
	gzip     *gzip.Writer
	buffer   *bufio.Writer // writes to gzip
}

// newBackupWriter returns a writer that has written the header and the keyset.
func newBackupWriter(to io.Writer, header backupHeader, keyset []byte) (*backupWriter, error) {
	compressor := gzip.NewWriter(to)
	w := &backupWriter{newManifestBuilder(), compressor, bufio.NewWriterSize(compressor, 1<<16)}
	return w, errors.Join(w.writeJSON(header), w.writeJSON(sectionLine{Keyset: string(keyset)}))
}

func (w *backupWriter) writeJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.writeLine(text)
}

func (w *backupWriter) writeLine(text []byte) error {
	text = append(text, '\n')
	w.computed.addContent(text)
	_, err := w.buffer.Write(text)
	return err
}

func (w *backupWriter) beginTable(t maintenance.Table) error {
	w.computed.beginTable(t.Name)
	return w.writeJSON(sectionLine{Table: t.Name, Columns: t.Columns})
}

func (w *backupWriter) writeRow(text []byte) error {
	w.computed.addRow(text)
	return w.writeLine(text)
}

// finish writes the manifest and flushes all data. It does not close the underlying writer.
func (w *backupWriter) finish() (backupManifest, error) {
	manifest := w.computed.build()
	return manifest, errors.Join(w.writeJSON(sectionLine{Manifest: &manifest}), w.buffer.Flush(), w.gzip.Close())
}
