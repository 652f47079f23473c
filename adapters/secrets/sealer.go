// SPDX-License-Identifier: Apache-2.0

// Package secrets encrypts small secrets for the database and the browser with AES-256-GCM, and
// backups with a passphrase. The keyset, which contains the keys, is in a file outside the
// database.
//
//   - sealer.go: Sealer, which seals and opens secrets. Start here.
//   - fingerprint.go: keyring, and fingerprints, which are hashes with keys derived from the keyset.
//   - keyset.go: the keyset file: OpenKeyset, CreateKeyset, ReadKeyset, CheckKeyset, MissingKeys,
//     ContainsKeyset and WriteNewKeyset.
//   - reload.go: how a Sealer notices that the file has changed.
//   - rotate.go: Keys, Rotate and Stage. On Unix, lock_unix.go lets only one rotation run at a
//     time. On other systems, lock_other.go does not prevent concurrent rotations.
//   - passphrase.go: Encrypt and Decrypter, for backups.
package secrets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/core/cryptofmt"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Sealer implements ports.Sealer and ports.Fingerprinter. It automatically reloads a changed keyset
// file. While the file cannot be used, the previous keyset stays in use.
type Sealer struct {
	// Log receives messages about the reload of a changed file. Set it before the first use.
	Log *slog.Logger

	path string
	ring atomic.Pointer[keyring] // the keyring in use, which can be read without a lock

	mu sync.Mutex // held while the file is checked and read
	// content is the content of the file from which the current keyring was read. lastInfo is the
	// file info just before the file was last read, nil if Stat failed.
	content  []byte
	lastInfo fs.FileInfo
	// checkedAt is when currentRing last checked the file for a change. reloadedAt is when the last
	// reload began. lastError is the text of its error, "" if the reload succeeded.
	checkedAt, reloadedAt time.Time
	lastError             string
}

var _ ports.Sealer = (*Sealer)(nil)

func newSealer(path string, file keysetFile) (*Sealer, error) {
	s := &Sealer{Log: slog.New(slog.DiscardHandler), path: path, content: file.content, lastInfo: file.info, checkedAt: time.Now()}
	return s, s.loadRing(file.content)
}

// loadRing makes content the keyset in use. The caller holds s.mu, or is the only user of s.
func (s *Sealer) loadRing(content []byte) error {
	ring, err := newKeyring(content)
	if err != nil {
		return fmt.Errorf("open keyset: %s %w", s.path, err)
	}
	s.ring.Store(ring)
	return nil
}

// Seal implements ports.Sealer. Open must get the same associatedData.
func (s *Sealer) Seal(plain secret.Text, associatedData string) ([]byte, error) {
	sealed, err := s.currentRing().Encrypt([]byte(plain.Reveal()), []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open implements ports.Sealer. Its error is the same for all causes, because the cause would only
// help an attacker. Open checks the keyset file for a change if it does not know the key.
func (s *Sealer) Open(sealed []byte, associatedData string) (secret.Text, error) {
	var plain []byte
	id, err := sealingKeyID(sealed)
	if err == nil {
		plain, err = s.ringWithKey(id).Decrypt(sealed, []byte(associatedData))
	}
	if err != nil {
		return secret.Text{}, errors.New("open sealed secret: changed, moved, or sealed with another keyset")
	}
	return secret.New(string(plain)), nil
}

// sealingKeyID returns the id of the key that sealed a secret. Tink writes a version byte and the
// id before the ciphertext.
func sealingKeyID(sealed []byte) (uint32, error) {
	if len(sealed) < cryptofmt.TinkPrefixSize || sealed[0] != cryptofmt.TinkStartByte {
		return 0, errors.New("no prefix of Tink")
	}
	return binary.BigEndian.Uint32(sealed[1:cryptofmt.TinkPrefixSize]), nil
}
