// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/tenantry/tenantry/ports"
)

var _ ports.Fingerprinter = (*Sealer)(nil)

// keyring holds the AEAD of a keyset, and one fingerprint key for each enabled key of the keyset.
// Fingerprint keys are derived from the keys of the keyset, so they need no file, rotation or
// backup of their own.
type keyring struct {
	tink.AEAD

	primaryID       uint32
	fingerprintKeys map[uint32][]byte // keyed by the id of the AES-GCM key from which each is derived
}

// newKeyring returns the keyring of a keyset. content is the content of the keyset file.
func newKeyring(content []byte) (*keyring, error) {
	handle, err := decode(content)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, errors.New("holds no key to seal with")
	}
	ring := &keyring{AEAD: primitive}
	return ring, ring.deriveFingerprintKeys(handle)
}

// hkdfInfo separates the derived keys from other uses of the keyset.
const hkdfInfo = "tenantry fingerprint v1"

func (k *keyring) deriveFingerprintKeys(handle *keyset.Handle) error {
	k.fingerprintKeys = map[uint32][]byte{}
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
		if k.fingerprintKeys[entry.KeyID()], err = hkdf.Key(sha256.New, material, nil, hkdfInfo, sha256.Size); err != nil {
			return err
		}
		if entry.IsPrimary() {
			k.primaryID = entry.KeyID()
		}
	}
	return nil
}

// fingerprintWith returns the fingerprint of text under one key. It is the key's id in 4 bytes,
// followed by the HMAC-SHA-256 of text.
func fingerprintWith(id uint32, key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(text) // hash.Hash.Write never fails
	return mac.Sum(binary.BigEndian.AppendUint32(nil, id))
}

// Fingerprint implements ports.Fingerprinter. It fails when the keyset has no primary key.
func (s *Sealer) Fingerprint(text []byte) ([]byte, error) {
	ring := s.currentRing()
	key, ok := ring.fingerprintKeys[ring.primaryID]
	if !ok {
		return nil, errors.New("fingerprint: the keyset has no primary key")
	}
	return fingerprintWith(ring.primaryID, key, text), nil
}

// hasKey reports whether the keyring has an enabled key with this id.
func (k *keyring) hasKey(id uint32) bool { return k.fingerprintKeys[id] != nil }

// Matches implements ports.Fingerprinter. For an unknown key id it checks the keyset file for a
// change, because the fingerprint may come from a replica with a newer keyset.
func (s *Sealer) Matches(text, fingerprint []byte) bool {
	if len(fingerprint) < 4 {
		return false
	}
	id := binary.BigEndian.Uint32(fingerprint)
	key, ok := s.ringWithKey(id).fingerprintKeys[id]
	return ok && hmac.Equal(fingerprint, fingerprintWith(id, key, text))
}
