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

// ageIntro is how everything begins that age encrypted.
const ageIntro = "age-encryption.org/"

// ErrPassphrase says that something was encrypted with another passphrase.
var ErrPassphrase = errors.New("the passphrase does not open it")

// Encrypted reports whether what begins with start was made by Encrypt, or by
// the age program.
func Encrypted(start []byte) bool { return bytes.HasPrefix(start, []byte(ageIntro)) }

// work makes each guess at a passphrase cost about a second and 256 MB. It is
// what the age program takes.
const work = 18

// Encrypt encrypts what is written until Close, in the age format with a
// passphrase: the age program opens it too.
func Encrypt(to io.Writer, passphrase secret.Text) (io.WriteCloser, error) {
	return encrypt(to, passphrase, work)
}

func encrypt(to io.Writer, passphrase secret.Text, work int) (io.WriteCloser, error) {
	recipient, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	recipient.SetWorkFactor(work)
	w, err := age.Encrypt(to, recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return w, nil
}

// Decrypt reads what Encrypt wrote. A change anywhere in it is an error of the
// reader, before the changed part is given out.
func Decrypt(from io.Reader, passphrase secret.Text) (io.Reader, error) {
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	r, err := age.Decrypt(from, identity)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return r, nil
}
