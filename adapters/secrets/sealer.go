// SPDX-License-Identifier: Apache-2.0

// Package secrets encrypts the credentials in the database with AES-256-GCM, and backups with a
// passphrase. The keyset is in a file outside the database.
//
//   - sealer.go: Sealer, which seals and opens secrets. Start here.
//   - fingerprint.go: keyring, and fingerprints of texts with keys of the same keyset.
//   - keyset.go: the keyset file: OpenKeyset, CreateKeyset, ReadKeyset, WriteNewKeyset.
//   - reload.go: how a Sealer notices that the file has changed.
//   - rotate.go: Rotate and Stage. lock_unix.go and lock_other.go let one rotation run at a time.
//   - passphrase.go: Encrypt and Decrypt, for backups.
package secrets

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Sealer implements ports.Sealer and ports.Fingerprinter. It automatically reloads a changed keyset
// file. While the file cannot be used, the previous keyset stays in use.
type Sealer struct {
	// Log receives messages about the reload of a changed file. Set it before the first use.
	Log *slog.Logger

	path string
	mu   sync.Mutex
	ring *keyring
	file fileVersion
	// checkedAt is when the file was last checked for a change. lastError is the text of the last
	// reload's error, "" when the reload succeeded.
	checkedAt time.Time
	lastError string
}

var _ ports.Sealer = (*Sealer)(nil)

func newSealer(path string, version fileVersion) (*Sealer, error) {
	s := &Sealer{Log: slog.New(slog.DiscardHandler), path: path, file: version, checkedAt: time.Now()}
	return s, s.loadRing(version.content)
}

// loadRing makes content the keyset in use. The caller holds s.mu, or is the only user of s.
func (s *Sealer) loadRing(content []byte) error {
	handle, err := decode(content)
	if err != nil {
		return fmt.Errorf("open keyset: %s %w", s.path, err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return fmt.Errorf("open keyset: %s holds no key to seal with", s.path)
	}
	ring := &keyring{AEAD: primitive}
	if err := ring.deriveFingerprintKeys(handle); err != nil {
		return fmt.Errorf("open keyset: %s: %w", s.path, err)
	}
	s.ring = ring
	return nil
}

// Seal implements ports.Sealer. Open must be passed the same associatedData.
func (s *Sealer) Seal(plain secret.Text, associatedData string) ([]byte, error) {
	sealed, err := s.currentRing().Encrypt([]byte(plain.Reveal()), []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open implements ports.Sealer. Its error is the same for all causes, because the cause would help
// only an attacker. Before it fails, Open reads the keyset file again: a replica with a newer
// keyset may have sealed the secret.
func (s *Sealer) Open(sealed []byte, associatedData string) (secret.Text, error) {
	ring := s.loadedRing()
	plain, err := ring.Decrypt(sealed, []byte(associatedData))
	if err != nil {
		if newer := s.rereadRing(); newer != ring {
			plain, err = newer.Decrypt(sealed, []byte(associatedData))
		}
	}
	if err != nil {
		return secret.Text{}, errors.New("open sealed secret: changed, moved, or sealed with another keyset")
	}
	return secret.New(string(plain)), nil
}
