// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// openTo are the permissions that a keyset file must not have: any for
// others, writing for the group. Its group may read it, which is how
// orchestrators hand secrets to a service.
const openTo fs.FileMode = 0o027

// OpenKeyset opens the keyset in the file at path. With create, a file that
// does not exist is made with a new key, readable by its owner only.
//
// The keyset lies there in clear (Tink's JSON). It protects what leaves the
// machine with the database: backups, replicas, a stolen disk of the database
// server. So it must never be kept in or beside the database's backups.
func OpenKeyset(path string, create bool) (*Sealer, error) {
	handle, err := read(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := generate(path); err != nil {
			return nil, fmt.Errorf("make keyset: %w", err)
		}
		handle, err = read(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	return &Sealer{aead: primitive}, nil
}

func read(path string) (*keyset.Handle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&openTo != 0 {
		return nil, fmt.Errorf("%s is open to others (mode %#o): chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(raw)))
	if err != nil {
		// Tink's words could quote the file, which is a key.
		return nil, fmt.Errorf("%s is not a keyset", path)
	}
	return handle, nil
}

// generate writes a new keyset beside its place and links it there: of two
// processes that start together one makes the keyset and both use that one,
// and no half-written file is ever seen.
func generate(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".keyset-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(f))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
