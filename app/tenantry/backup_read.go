// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
)

// longestLine bounds what a damaged backup can make us read at once.
const longestLine = 64 << 20

var errDamaged = errors.New("the backup is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// backupSink takes what a backup holds, in its order. rows end with the
// backup or with the next table.
type backupSink interface {
	table(bunstore.Table) error
	row([]byte) error
	end() error
}

// backup is what a backup is, but for its rows.
type backup struct {
	backupHeader
	keyset   []byte
	manifest backupManifest
}

// backupReader reads the lines of a backup and adds them up.
type backupReader struct {
	backupSums
	lines *bufio.Scanner
	backup
}

// readBackup reads a whole backup. What it gave to the sink counts only when
// it ends without an error: the sums stand at the end.
func readBackup(from io.Reader, into backupSink) (backup, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return backup{}, damaged("%v", err)
	}
	r := &backupReader{backupSums: newBackupSums(), lines: bufio.NewScanner(zip)}
	r.lines.Buffer(make([]byte, 1<<16), longestLine)
	if err := r.head(); err != nil {
		return r.backup, err
	}
	for r.backup.manifest.SHA256 == "" {
		if err := r.next(into); err != nil {
			return r.backup, err
		}
	}
	if r.lines.Scan() || r.lines.Err() != nil {
		return r.backup, damaged("something follows its end")
	}
	return r.backup, into.end()
}

// scan gives the next line, good until the one after.
func (r *backupReader) scan() ([]byte, error) {
	if r.lines.Scan() {
		return r.lines.Bytes(), nil
	}
	if err := r.lines.Err(); err != nil {
		// The words, not the error: what its kind means for a database or a
		// network it does not mean here.
		return nil, damaged("%v", err)
	}
	return nil, damaged("it ends too early")
}

func (r *backupReader) head() error {
	line, err := r.scan()
	if err != nil {
		return err
	}
	if json.Unmarshal(line, &r.backupHeader) != nil || r.Format == 0 {
		return damaged("it does not begin as a backup of tenantry")
	}
	if r.Format > backupFormat {
		return cli.WithFix(
			fmt.Errorf("the backup has format %d, written by tenantry %s; this one reads up to %d", r.Format, r.Version, backupFormat),
			"restore it with that version or a later one",
		)
	}
	if err := r.knownMigrations(); err != nil {
		return err
	}
	r.add(line)
	if line, err = r.scan(); err != nil {
		return err
	}
	var second backupLine
	if json.Unmarshal(line, &second) != nil || secrets.CheckKeyset([]byte(second.Keyset)) != nil {
		return damaged("its keyset cannot be read")
	}
	r.keyset = []byte(second.Keyset)
	r.add(line)
	return nil
}

func (r *backupReader) knownMigrations() error {
	unknown, err := bunstore.UnknownMigrations(r.Migrations)
	if err != nil || len(unknown) == 0 {
		return err
	}
	return cli.WithFix(
		fmt.Errorf("the backup was made by tenantry %s, whose database has %d migrations that this version does not know", r.Version, len(unknown)),
		"restore it with that version or a later one",
	)
}

func (r *backupReader) add(line []byte) {
	r.all.Write(line)
	r.all.Write([]byte{'\n'})
}

func (r *backupReader) next(into backupSink) error {
	line, err := r.scan()
	if err != nil {
		return err
	}
	if bytes.HasPrefix(line, []byte{'['}) {
		if r.backupSums.table == nil {
			return damaged("a row before its table")
		}
		r.row(line)
		r.add(line)
		return into.row(bytes.Clone(line))
	}
	var other backupLine
	if json.Unmarshal(line, &other) != nil {
		return damaged("a line that is neither row nor table")
	}
	if other.Manifest != nil {
		return r.finish(*other.Manifest)
	}
	if other.Table == "" {
		return damaged("a line that is neither row nor table")
	}
	r.begin(other.Table)
	r.add(line)
	return into.table(bunstore.Table{Name: other.Table, Columns: other.Columns})
}

// finish compares what was read with what was written.
func (r *backupReader) finish(want backupManifest) error {
	got := r.close()
	for i, t := range got.Tables {
		if i >= len(want.Tables) || t != want.Tables[i] {
			return damaged("table %s is not what was written", t.Table)
		}
	}
	if !slices.Equal(got.Tables, want.Tables) || got.SHA256 != want.SHA256 {
		return damaged("its SHA-256 is not that of what was written")
	}
	r.backup.manifest = want
	return nil
}
