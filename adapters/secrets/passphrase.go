// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"filippo.io/age"

	"github.com/tenantry/tenantry/core/secret"
)

// ageHeader is the beginning of a file in the binary format of the program age.
const ageHeader = "age-encryption.org/"

// ErrPassphrase means that the passphrase does not decrypt the data.
var ErrPassphrase = errors.New("the passphrase is wrong")

// IsEncrypted reports whether data is in the binary format of the program age, which Encrypt
// writes. start is the beginning of the data.
func IsEncrypted(start []byte) bool { return bytes.HasPrefix(start, []byte(ageHeader)) }

// workFactor is the base-2 logarithm of scrypt's cost parameter N. 18 is the default of the age
// program. With it, each guess at a passphrase takes about a second and 256 MB.
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

// Decrypter decrypts data that Encrypt has encrypted. It can read the same data several times and
// derives its key from the passphrase only once.
type Decrypter struct {
	identity *cachingIdentity
}

// NewDecrypter returns a Decrypter. It fails if the passphrase is empty.
func NewDecrypter(passphrase secret.Text) (*Decrypter, error) {
	identity, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return &Decrypter{&cachingIdentity{Identity: identity}}, nil
}

// Decrypt returns a reader that decrypts the data of from. It fails with ErrPassphrase if the
// passphrase is wrong. If the data was changed, the reader fails before it returns the changed
// part.
func (d *Decrypter) Decrypt(from io.Reader) (io.Reader, error) {
	r, err := age.Decrypt(from, d.identity)
	var noMatch *age.NoIdentityMatchError
	if errors.As(err, &noMatch) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return r, nil
}

// cachingIdentity is an age.Identity that caches the key of the last header, because the derivation
// of a key is slow on purpose.
type cachingIdentity struct {
	age.Identity
	header []*age.Stanza
	key    []byte
}

// Unwrap returns the key of a header.
func (c *cachingIdentity) Unwrap(header []*age.Stanza) ([]byte, error) {
	if c.key != nil && reflect.DeepEqual(header, c.header) {
		return bytes.Clone(c.key), nil
	}
	key, err := c.Identity.Unwrap(header)
	if err != nil {
		return nil, err
	}
	c.header, c.key = header, bytes.Clone(key)
	return key, nil
}
