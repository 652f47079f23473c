// SPDX-License-Identifier: Apache-2.0

package main

// A backup is a gzip stream of JSON lines, encrypted as a whole when there is
// a passphrase:
//
//	{"tenantry_backup":1,"version":…,"created_at":…,"database":…,"migrations":[…]}
//	{"keyset":"…"}
//	{"table":"plans","columns":[{"name":…,"kind":…}…]}
//	["complete",100,true]            a row, in the order of the columns
//	…
//	{"manifest":{"tables":[{"table":…,"rows":…,"sha256":…}…],"sha256":…}}
//
// Tables come after those that they point at. The manifest is the last line
// and has a sum of everything before it: a file without it is no backup.

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

	"github.com/tenantry/tenantry/adapters/bunstore"
)

// backupFormat counts the changes of the format that older versions cannot
// read.
const backupFormat = 1

type (
	backupHeader struct {
		Format     int       `json:"tenantry_backup"`
		Version    string    `json:"version"`
		CreatedAt  time.Time `json:"created_at"`
		Database   string    `json:"database"`
		Migrations []string  `json:"migrations"`
	}
	backupSum struct {
		Table  string `json:"table"`
		Rows   int    `json:"rows"`
		SHA256 string `json:"sha256"`
	}
	backupManifest struct {
		Tables []backupSum `json:"tables"`
		SHA256 string      `json:"sha256"`
	}
	// backupLine is any line but the first one and those of rows.
	backupLine struct {
		Keyset   string            `json:"keyset,omitempty"`
		Table    string            `json:"table,omitempty"`
		Columns  []bunstore.Column `json:"columns,omitempty"`
		Manifest *backupManifest   `json:"manifest,omitempty"`
	}
)

// backupSums adds up what a backup holds, while it is written or read.
type backupSums struct {
	all, table hash.Hash
	manifest   backupManifest
}

func newBackupSums() backupSums { return backupSums{all: sha256.New()} }

func (s *backupSums) begin(table string) {
	s.end()
	s.table = sha256.New()
	s.manifest.Tables = append(s.manifest.Tables, backupSum{Table: table})
}

func (s *backupSums) end() {
	if s.table != nil {
		s.manifest.Tables[len(s.manifest.Tables)-1].SHA256 = hex.EncodeToString(s.table.Sum(nil))
		s.table = nil
	}
}

func (s *backupSums) row(line []byte) {
	s.table.Write(line)
	s.manifest.Tables[len(s.manifest.Tables)-1].Rows++
}

func (s *backupSums) close() backupManifest {
	s.end()
	s.manifest.SHA256 = hex.EncodeToString(s.all.Sum(nil))
	return s.manifest
}

func (m backupManifest) rows() (n int) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	return n
}

// backupWriter writes the lines of a backup.
type backupWriter struct {
	backupSums
	zip *gzip.Writer
	out *bufio.Writer
}

func newBackupWriter(to io.Writer, header backupHeader, keyset []byte) (*backupWriter, error) {
	zip := gzip.NewWriter(to)
	w := &backupWriter{newBackupSums(), zip, bufio.NewWriterSize(zip, 1<<16)}
	return w, errors.Join(w.line(header), w.line(backupLine{Keyset: string(keyset)}))
}

func (w *backupWriter) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(text)
}

func (w *backupWriter) write(text []byte) error {
	text = append(text, '\n')
	w.all.Write(text)
	_, err := w.out.Write(text)
	return err
}

func (w *backupWriter) begin(t bunstore.Table) error {
	w.backupSums.begin(t.Name)
	return w.line(backupLine{Table: t.Name, Columns: t.Columns})
}

func (w *backupWriter) row(text []byte) error {
	w.backupSums.row(text)
	return w.write(text)
}

// finish writes the manifest; what is written to stays open.
func (w *backupWriter) finish() (backupManifest, error) {
	m := w.close()
	return m, errors.Join(w.line(backupLine{Manifest: &m}), w.out.Flush(), w.zip.Close())
}
