// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// KeyStatus says how a key of a keyset is used.
type KeyStatus string

// A primary key seals and opens secrets. A staged key opens secrets, and becomes primary at the
// next rotation. An old key opens secrets that were sealed while it was primary. A disabled key is
// not used.
const (
	Primary  KeyStatus = "primary"
	Staged   KeyStatus = "staged"
	Old      KeyStatus = "old"
	Disabled KeyStatus = "disabled"
)

// Key describes a key of a keyset. It does not contain the key material.
type Key struct {
	ID     string
	Status KeyStatus
}

// ErrStaged means that the keyset already has a staged key.
var ErrStaged = errors.New("the keyset already has a staged key")

// Keys returns the keys of the keyset file at path, oldest first.
func Keys(path string) ([]Key, error) {
	handle, err := loadKeyset(path)
	if err != nil {
		return nil, err
	}
	return keysOf(handle), nil
}

// Rotate makes the staged key the primary key and returns the keys. Without a staged key, it adds a
// new key and makes it the primary key. Secrets that older keys sealed can still be opened.
func Rotate(path string) ([]Key, error) {
	return editKeyset(path, func(manager *keyset.Manager, keys []Key) error {
		if newest := keys[len(keys)-1]; newest.Status == Staged {
			id, err := strconv.ParseUint(newest.ID, 10, 32)
			if err != nil {
				return err
			}
			return manager.SetPrimary(uint32(id))
		}
		id, err := manager.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return manager.SetPrimary(id)
	})
}

// Stage adds a staged key and returns the keys. All replicas can then read the key before the first
// replica seals with it. Stage fails with ErrStaged when the keyset already has a staged key.
func Stage(path string) ([]Key, error) {
	return editKeyset(path, func(manager *keyset.Manager, keys []Key) error {
		if keys[len(keys)-1].Status == Staged {
			return ErrStaged
		}
		_, err := manager.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// editKeyset edits the keyset file. It replaces the file atomically and keeps the file's mode and,
// on Unix, its owner. If path is a symbolic link, editKeyset replaces the link's target.
// Orchestrators create such links.
func editKeyset(path string, edit func(*keyset.Manager, []Key) error) ([]Key, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	unlock, err := lockDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("lock keyset: %w", err)
	}
	defer unlock()
	handle, err := loadKeyset(path)
	if err != nil {
		return nil, err
	}
	manager := keyset.NewManagerFromHandle(handle)
	if err := edit(manager, keysOf(handle)); err != nil {
		return nil, fmt.Errorf("change keyset: %w", err)
	}
	if handle, err = manager.Handle(); err != nil {
		return nil, fmt.Errorf("change keyset: %w", err)
	}
	if err := replaceKeysetFile(path, handle); err != nil {
		return nil, fmt.Errorf("change keyset: %w", err)
	}
	return keysOf(handle), nil
}

func replaceKeysetFile(path string, handle *keyset.Handle) error {
	content, err := encode(handle)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := writeTemp(path, content, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = copyOwner(temp, info)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return syncDir(path)
}

func loadKeyset(path string) (*keyset.Handle, error) {
	content, err := ReadKeyset(path)
	if err != nil {
		return nil, err
	}
	return decode(content)
}

// keysOf returns the keys with their status. New keys are added at the end. A key after the primary
// key has therefore never been primary: it is staged.
func keysOf(handle *keyset.Handle) []Key {
	keys := make([]Key, handle.Len())
	isAfterPrimary := false
	for i, info := range handle.KeysetInfo().GetKeyInfo() {
		keys[i] = Key{ID: strconv.FormatUint(uint64(info.GetKeyId()), 10), Status: Old}
		switch entry, err := handle.Entry(i); {
		case err != nil || entry.KeyStatus() != keyset.Enabled:
			keys[i].Status = Disabled
		case entry.IsPrimary():
			keys[i].Status, isAfterPrimary = Primary, true
		case isAfterPrimary:
			keys[i].Status = Staged
		}
	}
	return keys
}
