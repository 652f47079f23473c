// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// forbiddenMode holds the permissions that a keyset file must not have: write for the group, and
// all permissions for other users. The group may read the file, because orchestrators mount secrets
// in this way.
const forbiddenMode fs.FileMode = 0o027

// The values for the argument create of OpenKeyset.
const (
	CreateMissing   = true
	RequireExisting = false
)

// OpenKeyset returns a Sealer for the keyset file at path. If create is true and the file does not
// exist, it creates the file with a new key, readable only by its owner. OpenKeyset fails if the
// file is missing and create is false, or if it is not a keyset or has permissions in
// forbiddenMode.
//
// The file holds the keyset in clear text (Tink's JSON). Encryption protects copies of the database
// that do not include this file: replicas, backups of the database, or a stolen disk of the
// database server.
func OpenKeyset(path string, create bool) (*Sealer, error) {
	file, err := readKeysetFile(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		if _, err := CreateKeyset(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		file, err = readKeysetFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	return newSealer(path, file)
}

// CreateKeyset writes a keyset with one key to a new file. Its error wraps fs.ErrExist when the
// file exists.
func CreateKeyset(path string) ([]Key, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make keyset: %w", err)
	}
	content, err := encode(handle)
	if err == nil {
		err = WriteNewKeyset(path, content)
	}
	if err != nil {
		return nil, fmt.Errorf("make keyset: %w", err)
	}
	return keysOf(handle), nil
}

// ReadKeyset returns the content of a keyset file, for a backup.
func ReadKeyset(path string) ([]byte, error) {
	file, err := readKeysetFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keyset: %w", err)
	}
	return file.content, nil
}

// CheckKeyset returns an error when content is not the content of a keyset file.
func CheckKeyset(content []byte) error {
	_, err := decode(content)
	return err
}

// MissingKeys returns the ids of the keys that encrypted the values and that are not enabled in a
// keyset. It returns an id for each value of a missing key. content is the content of the keyset
// file. sealed holds the values or only their first 5 bytes, which name the key. MissingKeys skips
// a value that names no key, because it cannot be decrypted with any keyset.
func MissingKeys(content []byte, sealed [][]byte) ([]string, error) {
	ring, err := newKeyring(content)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, value := range sealed {
		if id, err := sealingKeyID(value); err == nil && !ring.hasKey(id) {
			missing = append(missing, strconv.FormatUint(uint64(id), 10))
		}
	}
	return missing, nil
}

// ContainsKeyset reports whether a keyset has all enabled keys of the keyset other, and can
// therefore decrypt all values that other can decrypt. The arguments are the contents of keyset
// files.
func ContainsKeyset(content, other []byte) (bool, error) {
	ring, err := newKeyring(content)
	if err != nil {
		return false, err
	}
	wanted, err := newKeyring(other)
	if err != nil {
		return false, err
	}
	for id, k := range wanted.fingerprintKeys {
		if !bytes.Equal(ring.fingerprintKeys[id], k) { // equal if the keys they are derived from are equal
			return false, nil
		}
	}
	return true, nil
}

// WriteNewKeyset writes the content of a keyset to a new file. Its error wraps fs.ErrExist when the
// file exists. It writes a temporary file and links it to path, so that no process reads an
// incomplete file. If two processes write the file at the same time, one of them gets this error,
// and can then read the file of the other process.
func WriteNewKeyset(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := writeTemp(path, content, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return syncDir(path)
}

// writeTemp writes a temporary file in the directory of path and returns its name.
func writeTemp(path string, content []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".keyset-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// syncDir syncs the directory of path, so that a new or renamed file survives a power failure.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// keysetFile is the content of a keyset file with its file info.
type keysetFile struct {
	info    fs.FileInfo
	content []byte
}

// readKeysetFile reads a keyset file. It refuses a file that is not a keyset or has permissions in
// forbiddenMode. It calls Stat before it reads, like reloadChanged.
func readKeysetFile(path string) (keysetFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return keysetFile{}, err
	}
	if info.Mode().Perm()&forbiddenMode != 0 {
		return keysetFile{}, fmt.Errorf("%s is open to users other than its owner (mode %#o): run chmod 600 on it", path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return keysetFile{}, err
	}
	if err := CheckKeyset(content); err != nil {
		return keysetFile{}, fmt.Errorf("%s %w", path, err)
	}
	return keysetFile{info, content}, nil
}

func decode(content []byte) (*keyset.Handle, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(content)))
	if err != nil {
		// Tink's error is not wrapped, because it could quote the file, which contains the keys.
		return nil, errors.New("is not a keyset")
	}
	return handle, nil
}

func encode(handle *keyset.Handle) ([]byte, error) {
	var content bytes.Buffer
	err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&content))
	return content.Bytes(), err
}
