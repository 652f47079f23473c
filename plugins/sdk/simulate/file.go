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

// File keeps one value in memory and, as JSON, in a file. Every change is in the file before Do
// returns. The value is written to a temporary file that is then renamed. If the process is killed
// at any time, the file has either the old or the new value.
type File[T any] struct {
	path string

	mu    sync.Mutex
	value T
	saved []byte
}

// OpenFile reads the value at path. If there is no file, it creates the file with the value fresh.
// It fails if the file cannot be read, decoded or created.
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

// Do runs fn, which may change the value, and saves the value. The value is locked while fn runs,
// so fn must neither use the File nor block.
func (f *File[T]) Do(fn func(*T)) error {
	return f.Try(func(value *T) error { fn(value); return nil })
}

// Try is Do for a function that may fail. If fn fails or the value cannot be saved, Try restores
// the last saved value and returns the error.
func (f *File[T]) Try(fn func(*T) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := fn(&f.value)
	if err == nil {
		err = f.save()
	}
	if err != nil {
		return errors.Join(err, f.restoreSaved())
	}
	return nil
}

func (f *File[T]) save() error {
	raw, err := json.Marshal(f.value)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if bytes.Equal(raw, f.saved) {
		return nil
	}
	if err := writeAndRename(f.path, raw); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	f.saved = raw
	return nil
}

func (f *File[T]) restoreSaved() error {
	if f.saved == nil { // OpenFile could not save the first value
		return nil
	}
	var saved T
	if err := json.Unmarshal(f.saved, &saved); err != nil {
		return fmt.Errorf("restore state: %w", err)
	}
	f.value = saved
	return nil
}

// View runs fn with the value, which fn must not change. The value is locked while fn runs, so fn
// must not use the File.
func (f *File[T]) View(fn func(*T)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.value)
}

// writeAndRename replaces the file at path with raw. It does not call fsync, because the state must
// survive a crash of the process, but not of the machine.
func writeAndRename(path string, raw []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
