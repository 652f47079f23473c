// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"io/fs"
	"os"
	"time"
)

// lookEvery bounds how often sealing looks whether the file has changed.
const lookEvery = time.Second

// same reports whether the file has the looks of this version. Another time,
// size, or file behind the name is a reason to read it.
func (v version) same(info fs.FileInfo) bool {
	return os.SameFile(v.info, info) && v.info.ModTime().Equal(info.ModTime()) &&
		v.info.Size() == info.Size() && v.info.Mode() == info.Mode()
}

func (s *Sealer) loaded() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with
}

// current is what to seal with now.
func (s *Sealer) current() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked) < lookEvery {
		return s.with
	}
	s.looked = time.Now()
	if info, err := os.Stat(s.path); err == nil && s.file.same(info) {
		return s.with
	}
	s.reload()
	return s.with
}

// reread reads the file whatever it looks like.
func (s *Sealer) reread() *keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reload()
	return s.with
}

// reload takes up the file's content if it is a keyset that can be used.
func (s *Sealer) reload() {
	v, err := readFile(s.path)
	changed := !bytes.Equal(v.raw, s.file.raw)
	if err == nil && changed {
		err = s.use(v.raw)
	}
	if err == nil {
		s.file, s.complaint = v, ""
		if changed {
			s.Log.Info("keyset reloaded", "file", s.path)
		}
		return
	}
	// Once for each thing that is wrong, not for each secret.
	if s.complaint != err.Error() {
		s.complaint = err.Error()
		s.Log.Error("the keyset file has changed and cannot be used; the keyset read before stays in use", "error", err)
	}
}
