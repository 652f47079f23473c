// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/tenantry/tenantry/ports"
)

var _ ports.Fingerprinter = (*Sealer)(nil)

// keyring is what a keyset gives: sealing, and a key for fingerprints derived
// from each of its keys, so that one file, one rotation and one backup are
// enough for both.
type keyring struct {
	tink.AEAD

	primary uint32
	prints  map[uint32][]byte // by the id of the keyset's key
}

// purpose keeps the derived keys apart from any other use of the keyset.
const purpose = "tenantry fingerprint v1"

func (k *keyring) derive(handle *keyset.Handle) error {
	k.prints = map[uint32][]byte{}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return err
		}
		if entry.KeyStatus() != keyset.Enabled {
			continue
		}
		key, ok := entry.Key().(*aesgcm.Key)
		if !ok {
			return fmt.Errorf("key %d is not for AES-GCM", entry.KeyID())
		}
		material := key.KeyBytes().Data(insecuresecretdataaccess.Token{})
		if k.prints[entry.KeyID()], err = hkdf.Key(sha256.New, material, nil, purpose, sha256.Size); err != nil {
			return err
		}
		if entry.IsPrimary() {
			k.primary = entry.KeyID()
		}
	}
	return nil
}

// sum is the fingerprint under one key, led by that key's id.
func sum(id uint32, key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(text) // never fails
	return mac.Sum(binary.BigEndian.AppendUint32(nil, id))
}

// Fingerprint implements ports.Fingerprinter.
func (s *Sealer) Fingerprint(text []byte) ([]byte, error) {
	with := s.current()
	key, ok := with.prints[with.primary]
	if !ok {
		return nil, errors.New("fingerprint: the keyset has no primary key")
	}
	return sum(with.primary, key, text), nil
}

// Matches implements ports.Fingerprinter. A key that is not known may be that
// of a replica with a newer keyset, so the file is read once more.
func (s *Sealer) Matches(text, fingerprint []byte) bool {
	if len(fingerprint) < 4 {
		return false
	}
	id := binary.BigEndian.Uint32(fingerprint)
	key, ok := s.loaded().prints[id]
	if !ok {
		key, ok = s.reread().prints[id]
	}
	return ok && hmac.Equal(fingerprint, sum(id, key, text))
}
