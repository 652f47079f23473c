// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/tenantry/tenantry/adapters/secrets"
)

func fingerprintOf(t *testing.T, sealer *secrets.Sealer, text string) []byte {
	t.Helper()
	fingerprint, err := sealer.Fingerprint([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fingerprint
}

func TestFingerprintMatchesOnlyItsText(t *testing.T) {
	sealer := openSealer(t, createKeyset(t))
	fingerprint := fingerprintOf(t, sealer, "one")
	if !sealer.Matches([]byte("one"), fingerprint) || sealer.Matches([]byte("two"), fingerprint) || sealer.Matches([]byte("one"), nil) || sealer.Matches([]byte("one"), fingerprint[:20]) {
		t.Fatal("a fingerprint must match its own text and nothing else")
	}
	fingerprint[len(fingerprint)-1] ^= 1
	if sealer.Matches([]byte("one"), fingerprint) {
		t.Fatal("a changed fingerprint matches")
	}
}

// TestFingerprintsNeedTheKeyset checks that a fingerprint is not a hash without a key. From a hash
// without a key, an attacker could guess a password in the text.
func TestFingerprintsNeedTheKeyset(t *testing.T) {
	sealer, foreignSealer := openSealer(t, createKeyset(t)), openSealer(t, createKeyset(t))
	fingerprint, hash := fingerprintOf(t, sealer, "text"), sha256.Sum256([]byte("text"))
	// The first four bytes are the id of the key.
	if bytes.Equal(fingerprint[4:], fingerprintOf(t, foreignSealer, "text")[4:]) || bytes.Contains(fingerprint, hash[:]) {
		t.Fatal("the fingerprint does not depend on the keyset, or contains a hash without a key")
	}
	if foreignSealer.Matches([]byte("text"), fingerprint) {
		t.Fatal("the fingerprint of a different keyset matches")
	}
}

func TestFingerprintsMatchAfterRotations(t *testing.T) {
	path := createKeyset(t)
	earlierSealer := openSealer(t, path)
	earlierFingerprint := fingerprintOf(t, earlierSealer, "text")
	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotatedSealer := openSealer(t, path)
	rotatedFingerprint := fingerprintOf(t, rotatedSealer, "text")
	if bytes.Equal(earlierFingerprint, rotatedFingerprint) {
		t.Fatal("after a rotation the fingerprint of a text is the same, want one of the new key")
	}
	if !rotatedSealer.Matches([]byte("text"), earlierFingerprint) || !rotatedSealer.Matches([]byte("text"), rotatedFingerprint) {
		t.Fatal("after a rotation a fingerprint does not match its text")
	}
	if !earlierSealer.Matches([]byte("text"), rotatedFingerprint) {
		t.Fatal("a sealer that was opened before the rotation does not read the keyset again")
	}
}
