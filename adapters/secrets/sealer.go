// SPDX-License-Identifier: Apache-2.0

// Package secrets encrypts what must not be readable in the database, with
// AES-256-GCM under a keyset that is not in the database, and backups, which
// hold that keyset.
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

// Sealer implements ports.Sealer. It takes up a changed keyset file by itself,
// and keeps what it has while the file cannot be used.
type Sealer struct {
	// Log takes what the reading of a changed file has to say. Set it before
	// the first use.
	Log *slog.Logger

	path string
	mu   sync.Mutex
	with *keyring
	file version
	// looked is when the file was last looked at for a change.
	looked    time.Time
	complaint string
}

var _ ports.Sealer = (*Sealer)(nil)

func newSealer(path string, v version) (*Sealer, error) {
	s := &Sealer{Log: slog.New(slog.DiscardHandler), path: path, file: v, looked: time.Now()}
	return s, s.use(v.raw)
}

// use is called with the lock held, or before anybody else has the Sealer.
func (s *Sealer) use(raw []byte) error {
	handle, err := decode(raw)
	if err != nil {
		return fmt.Errorf("open keyset: %s %w", s.path, err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return fmt.Errorf("open keyset: %s holds no key to seal with", s.path)
	}
	ring := &keyring{AEAD: primitive}
	if err := ring.derive(handle); err != nil {
		return fmt.Errorf("open keyset: %s: %w", s.path, err)
	}
	s.with = ring
	return nil
}

// Seal implements ports.Sealer. The place is the associated data.
func (s *Sealer) Seal(plain secret.Text, place string) ([]byte, error) {
	sealed, err := s.current().Encrypt([]byte(plain.Reveal()), []byte(place))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open implements ports.Sealer. One error for every cause: which one it was
// helps only who tampers. What does not open may have been sealed by a replica
// that has a newer keyset, so the file is read once more.
func (s *Sealer) Open(sealed []byte, place string) (secret.Text, error) {
	with := s.loaded()
	plain, err := with.Decrypt(sealed, []byte(place))
	if err != nil {
		if newer := s.reread(); newer != with {
			plain, err = newer.Decrypt(sealed, []byte(place))
		}
	}
	if err != nil {
		return secret.Text{}, errors.New("open sealed secret: changed, moved, or sealed with another keyset")
	}
	return secret.New(string(plain)), nil
}
