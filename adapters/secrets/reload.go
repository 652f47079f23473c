// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"io/fs"
	"os"
	"time"
)

// checkInterval limits how often sealing checks the file for a change.
const checkInterval = time.Second

// unchanged reports whether info shows the same file, time, size and mode as this version. After
// any difference the file must be read again.
func (v fileVersion) unchanged(info fs.FileInfo) bool {
	return os.SameFile(v.info, info) && v.info.ModTime().Equal(info.ModTime()) &&
		v.info.Size() == info.Size() && v.info.Mode() == info.Mode()
}

func (s *Sealer) loadedRing() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring
}

// currentRing returns the keyring to seal with. At most once per checkInterval it checks the file,
// and reloads a changed file.
func (s *Sealer) currentRing() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checkedAt) < checkInterval {
		return s.ring
	}
	s.checkedAt = time.Now()
	if info, err := os.Stat(s.path); err == nil && s.file.unchanged(info) {
		return s.ring
	}
	s.reload()
	return s.ring
}

// rereadRing reads the file even if its file info is unchanged, and returns the keyring.
func (s *Sealer) rereadRing() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reload()
	return s.ring
}

// reload reads the file and uses its keyset. When the file cannot be used, the previous keyset
// stays in use. The caller holds s.mu.
func (s *Sealer) reload() {
	version, err := readKeysetFile(s.path)
	changed := !bytes.Equal(version.content, s.file.content)
	if err == nil && changed {
		err = s.loadRing(version.content)
	}
	if err == nil {
		s.file, s.lastError = version, ""
		if changed {
			s.Log.Info("keyset reloaded", "file", s.path)
		}
		return
	}
	// Log an error once, not for each secret that is sealed.
	if s.lastError != err.Error() {
		s.lastError = err.Error()
		s.Log.Error("the keyset file has changed and cannot be used; the previous keyset stays in use", "error", err)
	}
}
