// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/secret"
)

const (
	keyBytes   = 24 // of randomness
	keyDigits  = 2 * keyBytes
	hintLength = 4
)

// NewKey makes a key of an account, `prefix_live_<48 hex>`, from a source of
// randomness: the row to store, and the secret to show this once.
func NewKey(random io.Reader, prefix string, form Form, owner AccountID, name string, now time.Time) (Key, secret.Text, error) {
	if form != Live && form != Trial {
		return Key{}, secret.Text{}, fault.InvalidRequest.With("the form of a key is live or trial")
	}
	var bytes struct {
		key [keyBytes]byte
		id  [ident.Entropy]byte
	}
	for _, part := range [][]byte{bytes.key[:], bytes.id[:]} {
		if _, err := io.ReadFull(random, part); err != nil {
			return Key{}, secret.Text{}, fmt.Errorf("read randomness: %w", err)
		}
	}
	text := secret.New(prefix + "_" + string(form) + "_" + hex.EncodeToString(bytes.key[:]))
	return Key{
		ID: ident.New(now, bytes.id), Account: owner, Hash: HashKey(text), Form: form, Hint: KeyHint(text), Name: name, CreatedAt: now,
	}, text, nil
}

// ParseKey returns the form of a well-formed key. A malformed one is refused
// with the very words that an unknown one gets, and before any query.
func ParseKey(prefix string, key secret.Text) (Form, error) {
	rest, ours := strings.CutPrefix(key.Reveal(), prefix+"_")
	form, digits, split := strings.Cut(rest, "_")
	if !ours || !split || !lowerHex(digits) {
		return "", UnknownKey()
	}
	switch f := Form(form); f {
	case Live, Trial:
		return f, nil
	default:
		return "", UnknownKey()
	}
}

// UnknownKey is the one answer for a key that is malformed, unknown, revoked
// or rotated: a caller cannot tell which.
func UnknownKey() error {
	return fault.InvalidAPIKey.With("the API key is not valid")
}

// HashKey is what is stored of a key. Plain SHA-256 is enough: with 192 bits
// of randomness there is nothing to guess.
func HashKey(key secret.Text) [sha256.Size]byte {
	return sha256.Sum256([]byte(key.Reveal()))
}

// KeyHint is the end of a key, for people to tell keys apart.
func KeyHint(key secret.Text) string {
	text := key.Reveal()
	return text[max(0, len(text)-hintLength):]
}

func lowerHex(s string) bool {
	if len(s) != keyDigits {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
