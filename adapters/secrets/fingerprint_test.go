// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/tenantry/tenantry/adapters/secrets"
)

func fingerprintOf(t *testing.T, s *secrets.Sealer, text string) []byte {
	t.Helper()
	fingerprint, err := s.Fingerprint([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fingerprint
}

func TestFingerprintMatchesOnlyItsText(t *testing.T) {
	s := openSealer(t, createKeyset(t))
	fingerprint := fingerprintOf(t, s, "one")
	if !s.Matches([]byte("one"), fingerprint) || s.Matches([]byte("two"), fingerprint) || s.Matches([]byte("one"), nil) || s.Matches([]byte("one"), fingerprint[:20]) {
		t.Fatal("a fingerprint must match its own text and nothing else")
	}
	fingerprint[len(fingerprint)-1] ^= 1
	if s.Matches([]byte("one"), fingerprint) {
		t.Fatal("a changed fingerprint matches")
	}
}

// TestFingerprintsNeedTheKeyset checks that a fingerprint is not a hash without a key. From a hash
// without a key, an attacker could guess a password in the text.
func TestFingerprintsNeedTheKeyset(t *testing.T) {
	sealer1, sealer2 := openSealer(t, createKeyset(t)), openSealer(t, createKeyset(t))
	fingerprint, hash := fingerprintOf(t, sealer1, "text"), sha256.Sum256([]byte("text"))
	if bytes.Equal(fingerprint[4:], fingerprintOf(t, sealer2, "text")[4:]) || bytes.Contains(fingerprint, hash[:]) {
		t.Fatal("the fingerprint can be made without the keyset")
	}
	if sealer2.Matches([]byte("text"), fingerprint) {
		t.Fatal("the fingerprint of another keyset matches")
	}
}

func TestFingerprintsMatchAfterRotations(t *testing.T) {
	path := createKeyset(t)
	s := openSealer(t, path)
	before := fingerprintOf(t, s, "text")
	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated := openSealer(t, path)
	after := fingerprintOf(t, rotated, "text")
	if bytes.Equal(before, after) {
		t.Fatal("the rotation changed nothing")
	}
	if !rotated.Matches([]byte("text"), before) || !rotated.Matches([]byte("text"), after) {
		t.Fatal("after a rotation a fingerprint does not match its text")
	}
	if !s.Matches([]byte("text"), after) {
		t.Fatal("a sealer that was opened before the rotation does not read the keyset again")
	}
}
