// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"io/fs"
	"os"
	"time"
)

// checkInterval is the minimum time between two checks of the file by currentRing. It is also the
// minimum time until the reload of an unchanged file is repeated after an error.
const checkInterval = time.Second

// sameFile reports whether a and b show the same file, modification time, size and mode. A nil info
// means that Stat failed.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// currentRing returns the keyring to seal with. At most once per checkInterval it checks whether
// the file has changed, and then reloads it. It does not wait for a check by a different goroutine.
func (s *Sealer) currentRing() *keyring {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		if time.Since(s.checkedAt) >= checkInterval {
			s.checkedAt = time.Now()
			s.reloadChanged()
		}
	}
	return s.ring.Load()
}

// ringWithKey returns a keyring to open or check a value. id identifies the key that made the
// value. If the current keyring does not have this key, ringWithKey reloads a changed file, because
// a replica with a newer keyset may have made the value. ringWithKey does not read an unchanged
// file for each value, because anyone can send values with invented ids.
func (s *Sealer) ringWithKey(id uint32) *keyring {
	if ring := s.ring.Load(); ring.hasKey(id) {
		return ring
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reloadChanged()
	return s.ring.Load()
}

// reloadChanged reads the file if its file info has changed since the last reload. It calls Stat
// before it reads. If the file is written between the two calls, the next check therefore finds
// that the file has changed. After a failed reload, reloadChanged also reads an unchanged file, at
// most once per checkInterval: the cause, such as a lack of file descriptors, may end without a
// change of the file info. The caller holds s.mu.
func (s *Sealer) reloadChanged() {
	info, err := os.Stat(s.path)
	if err != nil {
		info = nil
	}
	retryDue := s.lastError != "" && time.Since(s.reloadedAt) >= checkInterval
	if sameFile(s.lastInfo, info) && !retryDue {
		return
	}
	s.lastInfo, s.reloadedAt = info, time.Now()
	s.reload()
}

// reload reads the file and uses its keyset. If the file cannot be used, the previous keyset stays
// in use. The caller holds s.mu.
func (s *Sealer) reload() {
	file, err := readKeysetFile(s.path)
	changed := !bytes.Equal(file.content, s.content)
	if err == nil && changed {
		err = s.loadRing(file.content)
	}
	if err == nil {
		s.content, s.lastError = file.content, ""
		if changed {
			s.Log.Info("keyset reloaded", "file", s.path)
		}
		return
	}
	// Consecutive reloads with the same error log it once, not for each secret that is sealed.
	if s.lastError != err.Error() {
		s.lastError = err.Error()
		s.Log.Error("the keyset file cannot be used; the previous keyset stays in use", "error", err)
	}
}
