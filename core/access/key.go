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

// KeyForm is the middle part of an API key: live, or trial for an account that only tries the
// service.
type KeyForm string

// The two forms of keys.
const (
	Live  KeyForm = "live"
	Trial KeyForm = "trial"
)

// Key is an API key as it is stored, without the secret.
type Key struct {
	ID        string
	Account   AccountID
	Hash      [32]byte
	Form      KeyForm
	Hint      string // last four characters
	Name      string
	CreatedAt time.Time
	RevokedAt time.Time // zero if the key is active
	Bounds    Bounds
	// CreatedBy is the id of the key that created this key, or the name of the operator. It is
	// empty for keys of earlier releases.
	CreatedBy string
	// LastUsedAt is the minute of the last request with the key, zero if there was none. Each
	// process stores new values once a minute.
	LastUsedAt time.Time
}

// Status returns StatusActive or StatusRevoked.
func (k Key) Status() Status {
	if k.RevokedAt.IsZero() {
		return StatusActive
	}
	return StatusRevoked
}

// RevokedError returns the error for a key that is revoked.
func RevokedError() error { return fault.FromStore(fault.KeyRevoked.With("the API key is revoked")) }

// DefaultOverlap is how long the old secret of a key stays valid after POST
// /v1/keys/{key_id}/rotate, unless the caller asks for a different time.
const DefaultOverlap = 24 * time.Hour

const (
	keyBytes   = 24 // random bytes
	keyDigits  = 2 * keyBytes
	hintLength = 4
)

// NewKey creates a key without bounds from a source of randomness. It returns the key to store, and
// the secret: prefix_form_ and 48 hexadecimal digits. NewKey fails with invalid_request for an
// unknown form. It also fails if random does not return enough bytes.
func NewKey(random io.Reader, prefix string, form KeyForm, owner AccountID, name string, now time.Time) (Key, secret.Text, error) {
	if form != Live && form != Trial {
		return Key{}, secret.Text{}, fault.InvalidRequest.With("the form of a key is live or trial")
	}
	var bytes struct {
		key [keyBytes]byte
		id  [ident.EntropyBytes]byte
	}
	for _, part := range [][]byte{bytes.key[:], bytes.id[:]} {
		if _, err := io.ReadFull(random, part); err != nil {
			return Key{}, secret.Text{}, fmt.Errorf("read randomness: %w", err)
		}
	}
	text := secret.New(prefix + "_" + string(form) + "_" + hex.EncodeToString(bytes.key[:]))
	return Key{
		ID: ident.New(now, bytes.id), Account: owner, Hash: HashKey(text), Form: form, Hint: KeyHint(text), Name: name, CreatedAt: now,
		Bounds: Unbounded(),
	}, text, nil
}

// ParseKey returns the form of a well-formed key. For a malformed key it returns UnknownKey, so
// that the caller need not query the store.
func ParseKey(prefix string, key secret.Text) (KeyForm, error) {
	rest, prefixed := strings.CutPrefix(key.Reveal(), prefix+"_")
	form, digits, split := strings.Cut(rest, "_")
	if !prefixed || !split || !areKeyDigits(digits) {
		return "", UnknownKey()
	}
	switch f := KeyForm(form); f {
	case Live, Trial:
		return f, nil
	default:
		return "", UnknownKey()
	}
}

// UnknownKey returns the invalid_api_key error for a malformed, unknown, revoked or rotated key.
// Callers cannot tell these cases apart.
func UnknownKey() error {
	return fault.InvalidAPIKey.With("the API key is not valid")
}

// HashKey returns the hash of a key, which is stored instead of the key. Plain SHA-256 suffices,
// because a key has 192 random bits and cannot be guessed.
func HashKey(key secret.Text) [sha256.Size]byte {
	return sha256.Sum256([]byte(key.Reveal()))
}

// KeyHint returns the last four characters of a key, by which people distinguish keys.
func KeyHint(key secret.Text) string {
	text := key.Reveal()
	return text[max(0, len(text)-hintLength):]
}

func areKeyDigits(s string) bool {
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

// BearerToken returns the token from the values of the Authorization header. It fails with
// invalid_auth_header or missing_api_key. Several headers are refused, because a proxy could check
// a different header than this service.
func BearerToken(headers []string) (string, error) {
	if len(headers) != 1 {
		return "", fault.InvalidAuthHeader.With("the request has no Authorization header, or several")
	}
	scheme, token, _ := strings.Cut(strings.Trim(headers[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fault.InvalidAuthHeader.With("the Authorization header must have the form `Bearer <API_KEY>`")
	}
	token = strings.Trim(token, " \t")
	if token == "" {
		return "", fault.MissingAPIKey.With("the Authorization header has no key after `Bearer`")
	}
	return token, nil
}
