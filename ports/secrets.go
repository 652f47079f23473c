// SPDX-License-Identifier: Apache-2.0

package ports

import "github.com/tenantry/tenantry/core/secret"

// Sealer encrypts small secrets for the database and the browser.
type Sealer interface {
	// Seal encrypts plain with this associated data. Open needs the same associated data.
	Seal(plain secret.Text, associatedData string) ([]byte, error)
	// Open decrypts the result of Seal. It fails if the ciphertext was changed, or was sealed with
	// different associated data or a different keyset.
	Open(sealed []byte, associatedData string) (secret.Text, error)
}

// Fingerprinter compares texts without storing them. Without the key, which is not in the database,
// a fingerprint reveals nothing about its text.
type Fingerprinter interface {
	// Fingerprint returns the text's fingerprint, with the name of the key that made it.
	Fingerprint(text []byte) ([]byte, error)
	// Matches reports whether the fingerprint belongs to the text. It also works after key
	// rotations. A fingerprint that was made with a deleted key matches no text.
	Matches(text, fingerprint []byte) bool
}
