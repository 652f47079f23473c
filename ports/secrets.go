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
