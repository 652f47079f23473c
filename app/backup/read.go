// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
)

// backupSource is a backup file. restore reads the file first to check it and then to load it,
// because the checksums are at its end.
type backupSource struct {
	name      string
	decrypter *secrets.Decrypter // nil without a passphrase
}

// read decrypts the file and passes its tables and rows to sink. It fails when the file is not a
// backup, when an encrypted file has no passphrase, and when an unencrypted file has one.
// fileSHA256 is the checksum of the whole file, because readBackup reads an undamaged file to its
// end.
func (s backupSource) read(sink rowSink) (backupInfo, error) {
	f, err := os.Open(s.name)
	if err != nil {
		return backupInfo{}, cli.WithFix(fmt.Errorf("read backup: %w", err), "pass the name of a file that `tenantry backup` wrote")
	}
	defer func() { _ = f.Close() }()
	fileHash := sha256.New()
	buffered := bufio.NewReaderSize(io.TeeReader(f, fileHash), 1<<16)
	start, _ := buffered.Peek(64)
	var content io.Reader = buffered
	switch {
	case secrets.IsEncrypted(start) && s.decrypter == nil:
		return backupInfo{}, cli.WithFix(errors.New("the backup is encrypted"), "pass its passphrase with --credential-file FILE; - reads it from standard input")
	case secrets.IsEncrypted(start):
		if content, err = s.decrypter.Decrypt(buffered); err != nil {
			return backupInfo{}, err
		}
	case !bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return backupInfo{}, cli.WithFix(fmt.Errorf("%s is not a backup of tenantry", s.name), "pass the name of a file that `tenantry backup` wrote")
	case s.decrypter != nil:
		// The operator expects an encrypted backup. Anyone could have replaced it by an unencrypted
		// file.
		return backupInfo{}, cli.WithFix(errors.New("there is a passphrase, but the backup is not encrypted"),
			"if this is the right backup, omit --credential-file")
	}
	info, err := readBackup(content, sink)
	info.fileSHA256 = hex.EncodeToString(fileHash.Sum(nil))
	return info, err
}

// maxLineBytes limits the memory that a line of a damaged backup can take.
const maxLineBytes = 64 << 20

var (
	// errDamaged means that the content of a backup is damaged.
	errDamaged = errors.New("the backup is damaged")
	// errUnreadable means that a read failed: the content is damaged, or its source cannot be read.
	errUnreadable = errors.New("the backup cannot be read, or is damaged")
)

func damagedError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// rowSink receives the tables and rows of a backup, in the order of the file. Each row belongs to
// the table of the last call of beginTable. finish is called once, after a backup without errors.
type rowSink interface {
	beginTable(maintenance.Table) error
	addRow([]byte) error
	finish() error
}

// backupInfo is the content of a backup without its tables and rows, and the checksum of its file.
type backupInfo struct {
	header     backupHeader
	keyset     []byte
	manifest   backupManifest
	fileSHA256 string // of the file, in hexadecimal as sha256sum prints it
}

// backupReader reads the lines of a backup and computes their manifest.
type backupReader struct {
	computed manifestBuilder
	lines    *bufio.Scanner
	info     backupInfo
}

// readBackup reads a whole backup and passes its tables and rows to sink. It fails when the backup
// cannot be read, is damaged or requires a newer release, and when sink fails. The caller must then
// discard all that sink received, because the checksums are at the end of a backup.
func readBackup(from io.Reader, sink rowSink) (backupInfo, error) {
	decompressed, err := gzip.NewReader(from)
	if err != nil {
		return backupInfo{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	r := &backupReader{computed: newManifestBuilder(), lines: bufio.NewScanner(decompressed)}
	r.lines.Buffer(make([]byte, 1<<16), maxLineBytes)
	if err := r.readHead(); err != nil {
		return r.info, err
	}
	for r.info.manifest.SHA256 == "" {
		if err := r.readNext(sink); err != nil {
			return r.info, err
		}
	}
	if r.lines.Scan() {
		return r.info, damagedError("it has data after its manifest")
	}
	if err := r.lines.Err(); err != nil {
		return r.info, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return r.info, sink.finish()
}

// scan returns the next line. The line is valid until the next call of scan.
func (r *backupReader) scan() ([]byte, error) {
	if r.lines.Scan() {
		return r.lines.Bytes(), nil
	}
	if err := r.lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return nil, damagedError("it ends too early")
}

// readHead reads the header and the keyset.
func (r *backupReader) readHead() error {
	line, err := r.scan()
	if err != nil {
		return err
	}
	if json.Unmarshal(line, &r.info.header) != nil || r.info.header.Format == 0 {
		return damagedError("it does not begin with the header of a backup")
	}
	if r.info.header.Format > backupFormat {
		return cli.WithFix(
			fmt.Errorf("the backup has format %d, written by tenantry %s; this version reads formats up to %d", r.info.header.Format, r.info.header.Version, backupFormat),
			"restore the backup with that version or a later one",
		)
	}
	if err := r.checkMigrations(); err != nil {
		return err
	}
	r.addLine(line)
	if line, err = r.scan(); err != nil {
		return err
	}
	var keysetLine sectionLine
	if json.Unmarshal(line, &keysetLine) != nil || secrets.CheckKeyset([]byte(keysetLine.Keyset)) != nil {
		return damagedError("its keyset cannot be read")
	}
	r.info.keyset = []byte(keysetLine.Keyset)
	r.addLine(line)
	return nil
}

// checkMigrations returns an error when the database of the backup had migrations that this release
// does not have.
func (r *backupReader) checkMigrations() error {
	unknown, err := maintenance.UnknownMigrations(r.info.header.Migrations)
	if err != nil || len(unknown) == 0 {
		return err
	}
	return cli.WithFix(
		fmt.Errorf("the backup was made by tenantry %s, whose database has %d migrations that this version does not know", r.info.header.Version, len(unknown)),
		"restore the backup with that version or a later one",
	)
}

func (r *backupReader) addLine(line []byte) {
	r.computed.addContent(line)
	r.computed.addContent([]byte{'\n'})
}

// readNext reads one line after the head: the columns of a table, a row, or the manifest.
func (r *backupReader) readNext(sink rowSink) error {
	line, err := r.scan()
	if err != nil {
		return err
	}
	if bytes.HasPrefix(line, []byte{'['}) {
		if r.computed.tableHash == nil {
			return damagedError("a row comes before its table")
		}
		r.computed.addRow(line)
		r.addLine(line)
		return sink.addRow(bytes.Clone(line))
	}
	var parsed sectionLine
	if json.Unmarshal(line, &parsed) != nil || parsed.Manifest == nil && parsed.Table == "" {
		return damagedError("a line is neither a row, a table nor the manifest")
	}
	if parsed.Manifest != nil {
		return r.checkManifest(*parsed.Manifest)
	}
	r.computed.beginTable(parsed.Table)
	r.addLine(line)
	return sink.beginTable(maintenance.Table{Name: parsed.Table, Columns: parsed.Columns})
}

// checkManifest compares the computed manifest with the manifest in the backup.
func (r *backupReader) checkManifest(want backupManifest) error {
	got := r.computed.build()
	for i, t := range got.Tables {
		if i >= len(want.Tables) || t != want.Tables[i] {
			return damagedError("the rows of table %s differ from the manifest", t.Table)
		}
	}
	if !slices.Equal(got.Tables, want.Tables) || got.SHA256 != want.SHA256 {
		return damagedError("its SHA-256 differs from the manifest")
	}
	r.info.manifest = want
	return nil
}
