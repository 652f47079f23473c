// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// File keeps one value in memory and on disk. Every change is on disk before
// Do returns, written beside the file and renamed over it, so a process killed
// at any instruction leaves either the old value or the new one.
type File[T any] struct {
	path string

	mu    sync.Mutex
	value T
	saved []byte
}

// OpenFile reads the value at path, or starts with fresh when there is none.
func OpenFile[T any](path string, fresh T) (*File[T], error) {
	f := &File[T]{path: path, value: fresh}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, f.Do(func(*T) {})
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("read state %s: %w", filepath.Base(path), err)
	}
	f.value, f.saved = value, raw
	return f, nil
}

// Do runs fn alone with the value and saves what it changed. fn must not call
// anybody: the value is locked meanwhile.
func (f *File[T]) Do(fn func(*T)) error {
	return f.Try(func(value *T) error { fn(value); return nil })
}

// Try is Do for a change that may be refused: when fn answers with an error,
// the value is what was saved last.
func (f *File[T]) Try(fn func(*T) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := fn(&f.value); err != nil {
		return errors.Join(err, f.undo())
	}
	raw, err := json.Marshal(f.value)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if bytes.Equal(raw, f.saved) {
		return nil
	}
	if err := replace(f.path, raw); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	f.saved = raw
	return nil
}

func (f *File[T]) undo() error {
	var before T
	if err := json.Unmarshal(f.saved, &before); err != nil {
		return fmt.Errorf("undo a change: %w", err)
	}
	f.value = before
	return nil
}

// View runs fn alone with the value, which it must not change. It may not call
// Do or View of the same file.
func (f *File[T]) View(fn func(*T)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.value)
}

// replace writes raw beside path and renames it. There is no fsync: the state
// has to survive the death of the process, not that of the machine.
func replace(path string, raw []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
