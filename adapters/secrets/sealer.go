// SPDX-License-Identifier: Apache-2.0

// Package secrets encrypts what must not be readable in the database, with
// AES-256-GCM under a keyset that is not in the database.
package secrets

import (
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Sealer implements ports.Sealer.
type Sealer struct{ aead tink.AEAD }

var _ ports.Sealer = (*Sealer)(nil)

// Seal implements ports.Sealer. The place is the associated data.
func (s *Sealer) Seal(plain secret.Text, place string) ([]byte, error) {
	sealed, err := s.aead.Encrypt([]byte(plain.Reveal()), []byte(place))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open implements ports.Sealer. One error for every cause: which one it was
// helps only who tampers.
func (s *Sealer) Open(sealed []byte, place string) (secret.Text, error) {
	plain, err := s.aead.Decrypt(sealed, []byte(place))
	if err != nil {
		return secret.Text{}, errors.New("open sealed secret: changed, moved, or sealed with another keyset")
	}
	return secret.New(string(plain)), nil
}
