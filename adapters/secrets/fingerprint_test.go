// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"bytes"
	"crypto/sha256"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/adapters/secrets"
)

func printed(t *testing.T, s *secrets.Sealer, text string) []byte {
	t.Helper()
	p, err := s.Fingerprint([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFingerprintsTellTextsApart(t *testing.T) {
	s := open(t, created(t))
	p := printed(t, s, "one")
	if !s.Matches([]byte("one"), p) || s.Matches([]byte("two"), p) || s.Matches([]byte("one"), nil) || s.Matches([]byte("one"), p[:20]) {
		t.Fatal("a fingerprint does not mean its text and nothing else")
	}
	p[len(p)-1] ^= 1
	if s.Matches([]byte("one"), p) {
		t.Fatal("a changed fingerprint matches")
	}
}

// A plain hash of a body with a password would be an oracle to guess it with.
func TestFingerprintsNeedTheKeyset(t *testing.T) {
	one, other := open(t, created(t)), open(t, filepath.Join(t.TempDir(), "keyset.json"))
	p, hash := printed(t, one, "text"), sha256.Sum256([]byte("text"))
	if bytes.Equal(p[4:], printed(t, other, "text")[4:]) || bytes.Contains(p, hash[:]) {
		t.Fatal("the fingerprint can be made without the keyset")
	}
	if other.Matches([]byte("text"), p) {
		t.Fatal("the fingerprint of another keyset matches")
	}
}

func TestFingerprintsOutliveRotations(t *testing.T) {
	path := created(t)
	s := open(t, path)
	before := printed(t, s, "text")
	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated := open(t, path)
	after := printed(t, rotated, "text")
	if bytes.Equal(before, after) {
		t.Fatal("the rotation changed nothing")
	}
	if !rotated.Matches([]byte("text"), before) || !rotated.Matches([]byte("text"), after) {
		t.Fatal("a rotation makes a request another one")
	}
	if !s.Matches([]byte("text"), after) {
		t.Fatal("a replica with the older keyset does not read the newer one")
	}
}
