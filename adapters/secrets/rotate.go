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

// KeyStatus is what a key of a keyset is for.
type KeyStatus string

// Primary seals and opens. Staged opens already, and seals after the next
// rotation. Old opens what it sealed. Disabled does nothing.
const (
	Primary  KeyStatus = "primary"
	Staged   KeyStatus = "staged"
	Old      KeyStatus = "old"
	Disabled KeyStatus = "disabled"
)

// Key is a key of a keyset without its material.
type Key struct {
	ID     string
	Status KeyStatus
}

// ErrStaged says that a key is staged already.
var ErrStaged = errors.New("a staged key waits already")

// Keys lists the keys of the keyset in the file at path, oldest first.
func Keys(path string) ([]Key, error) {
	handle, err := load(path)
	if err != nil {
		return nil, err
	}
	return keysOf(handle), nil
}

// Rotate makes new secrets be sealed with another key: a staged one if there
// is one, else a new one. What older keys sealed still opens.
func Rotate(path string) ([]Key, error) {
	return change(path, func(manager *keyset.Manager, keys []Key) error {
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

// Stage adds a key that opens but does not seal yet, so that every replica can
// have it before the first one seals with it.
func Stage(path string) ([]Key, error) {
	return change(path, func(manager *keyset.Manager, keys []Key) error {
		if keys[len(keys)-1].Status == Staged {
			return ErrStaged
		}
		_, err := manager.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// change puts a changed keyset in the place of the file, in one step and with
// its mode. A link, as orchestrators make, stays one: what it leads to changes.
func change(path string, edit func(*keyset.Manager, []Key) error) ([]Key, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("open keyset: %w", err)
	}
	unlock, err := lock(path)
	if err != nil {
		return nil, fmt.Errorf("lock keyset: %w", err)
	}
	defer unlock()
	handle, err := load(path)
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
	if err := replace(path, handle); err != nil {
		return nil, fmt.Errorf("change keyset: %w", err)
	}
	return keysOf(handle), nil
}

func replace(path string, handle *keyset.Handle) error {
	raw, err := encode(handle)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fresh, err := beside(path, raw, info.Mode().Perm())
	if err != nil {
		return err
	}
	if err := errors.Join(sameOwner(fresh, info), os.Rename(fresh, path)); err != nil {
		_ = os.Remove(fresh)
		return err
	}
	return syncFolder(path)
}

func load(path string) (*keyset.Handle, error) {
	raw, err := ReadKeyset(path)
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// keysOf reads the order as time: keys are only ever added at the end, so what
// comes after the primary has not been it yet.
func keysOf(handle *keyset.Handle) []Key {
	keys := make([]Key, handle.Len())
	later := false
	for i, info := range handle.KeysetInfo().GetKeyInfo() {
		keys[i] = Key{ID: strconv.FormatUint(uint64(info.GetKeyId()), 10), Status: Old}
		switch entry, err := handle.Entry(i); {
		case err != nil || entry.KeyStatus() != keyset.Enabled:
			keys[i].Status = Disabled
		case entry.IsPrimary():
			keys[i].Status, later = Primary, true
		case later:
			keys[i].Status = Staged
		}
	}
	return keys
}
