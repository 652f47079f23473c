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
// machine with the database: replicas, a stolen disk of the database server.
func OpenKeyset(path string, create bool) (*Sealer, error) {
	v, err := readFile(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		if _, err := CreateKeyset(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		v, err = readFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	return newSealer(path, v)
}

// CreateKeyset makes a keyset with one key in a new file, and reports
// fs.ErrExist when there is one already.
func CreateKeyset(path string) ([]Key, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make keyset: %w", err)
	}
	raw, err := encode(handle)
	if err == nil {
		err = PlaceKeyset(path, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("make keyset: %w", err)
	}
	return keysOf(handle), nil
}

// ReadKeyset reads the content of a keyset file, as a backup holds it.
func ReadKeyset(path string) ([]byte, error) {
	v, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keyset: %w", err)
	}
	return v.raw, nil
}

// CheckKeyset reports whether raw is the content of a keyset file.
func CheckKeyset(raw []byte) error {
	_, err := decode(raw)
	return err
}

// PlaceKeyset writes the content of a keyset into a new file. It is written
// beside its place and linked there: of two processes that start together one
// makes the keyset and both use that one, and no half-written file is seen.
func PlaceKeyset(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	fresh, err := beside(path, raw, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh) }()
	if err := os.Link(fresh, path); err != nil {
		return err
	}
	return syncFolder(path)
}

// beside writes a file next to path and returns its name.
func beside(path string, raw []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".keyset-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// syncFolder makes a file's new name outlive a loss of power.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// version is one state of a keyset file.
type version struct {
	info fs.FileInfo
	raw  []byte
}

// readFile refuses a file that is no keyset, or that others may read. It looks
// before it reads: what is written in between is then noticed later.
func readFile(path string) (version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return version{}, err
	}
	if info.Mode().Perm()&openTo != 0 {
		return version{}, fmt.Errorf("%s is open to others (mode %#o): chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return version{}, err
	}
	if err := CheckKeyset(raw); err != nil {
		return version{}, fmt.Errorf("%s %w", path, err)
	}
	return version{info, raw}, nil
}

func decode(raw []byte) (*keyset.Handle, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(raw)))
	if err != nil {
		// Tink's words could quote the file, which is a key.
		return nil, errors.New("is not a keyset")
	}
	return handle, nil
}

func encode(handle *keyset.Handle) ([]byte, error) {
	var raw bytes.Buffer
	err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&raw))
	return raw.Bytes(), err
}
