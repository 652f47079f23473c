// SPDX-License-Identifier: Apache-2.0

package ports

import "github.com/tenantry/tenantry/core/secret"

// Sealer encrypts small secrets for the database and the browser.
type Sealer interface {
	// Seal encrypts plain with place as its associated data. Open needs the same place.
	Seal(plain secret.Text, place string) ([]byte, error)
	// Open decrypts the result of Seal. It fails if the ciphertext was changed, or was sealed with
	// a different place or keyset.
	Open(sealed []byte, place string) (secret.Text, error)
}

// Fingerprinter compares texts without storing them. A fingerprint reveals nothing without the key,
// which is not in the database.
type Fingerprinter interface {
	// Fingerprint returns the text's fingerprint, with the name of the key that made it.
	Fingerprint(text []byte) ([]byte, error)
	// Matches reports whether the fingerprint belongs to the text, also after key rotations. A
	// fingerprint of a deleted key matches nothing.
	Matches(text, fingerprint []byte) bool
}
