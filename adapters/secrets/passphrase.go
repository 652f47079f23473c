// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/tenantry/tenantry/core/secret"
)

// ageHeader is the beginning of each file that age encrypted.
const ageHeader = "age-encryption.org/"

// ErrPassphrase means that the data was encrypted with a different passphrase.
var ErrPassphrase = errors.New("the passphrase is wrong")

// Encrypted reports whether data was encrypted by Encrypt or by the age program. start is the
// beginning of the data.
func Encrypted(start []byte) bool { return bytes.HasPrefix(start, []byte(ageHeader)) }

// workFactor is the scrypt work factor, the default of the age program. With it, each guess at a
// passphrase takes about a second and 256 MB.
const workFactor = 18

// Encrypt returns a writer that encrypts with a passphrase, in the format of the age program. The
// caller must close the writer.
func Encrypt(to io.Writer, passphrase secret.Text) (io.WriteCloser, error) {
	return encrypt(to, passphrase, workFactor)
}

func encrypt(to io.Writer, passphrase secret.Text, workFactor int) (io.WriteCloser, error) {
	recipient, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	recipient.SetWorkFactor(workFactor)
	w, err := age.Encrypt(to, recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return w, nil
}

// Decrypt returns a reader that decrypts data of Encrypt. It fails with ErrPassphrase for a
// different passphrase. If the data was changed, the reader fails before it returns the changed
// part.
func Decrypt(from io.Reader, passphrase secret.Text) (io.Reader, error) {
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	r, err := age.Decrypt(from, identity)
	var noMatch *age.NoIdentityMatchError
	if errors.As(err, &noMatch) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return r, nil
}
