// SPDX-License-Identifier: Apache-2.0

package ports

import "github.com/tenantry/tenantry/core/secret"

// Sealer encrypts small secrets for the database and the browser.
type Sealer interface {
	// Seal encrypts plain and binds it to where it lives: Open gives it
	// back only with the same place.
	Seal(plain secret.Text, place string) ([]byte, error)
	// Open decrypts what Seal made. A ciphertext that was changed, moved to
	// another place or made with another keyset is an error.
	Open(sealed []byte, place string) (secret.Text, error)
}

// Fingerprinter tells whether two texts are the same without keeping them. A
// fingerprint says nothing to who lacks the key, which is not in the database.
type Fingerprinter interface {
	// Fingerprint is the text's, with the name of the key that made it.
	Fingerprint(text []byte) ([]byte, error)
	// Matches reports whether the fingerprint is the text's, also after
	// rotations. One made with a key that is gone matches nothing.
	Matches(text, fingerprint []byte) bool
}
