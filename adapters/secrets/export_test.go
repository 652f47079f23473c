// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"io"

	"filippo.io/age"

	"github.com/tenantry/tenantry/core/secret"
)

// EncryptWithLowWorkFactor works like Encrypt, with a smaller work factor. The race detector makes
// scrypt twenty times slower.
func EncryptWithLowWorkFactor(to io.Writer, passphrase secret.Text) (io.WriteCloser, error) {
	return encrypt(to, passphrase, 10)
}

// CountDerivations starts to count how often d derives a key from its passphrase. It returns the
// counter.
func CountDerivations(d *Decrypter) *int {
	counted := &countingIdentity{Identity: d.identity.Identity}
	d.identity.Identity = counted
	return &counted.calls
}

type countingIdentity struct {
	age.Identity

	calls int
}

func (c *countingIdentity) Unwrap(header []*age.Stanza) ([]byte, error) {
	c.calls++
	return c.Identity.Unwrap(header)
}

// BlockReload simulates a slow disk. Until unblock is called, it holds the lock under which the
// sealer checks the keyset file.
func (s *Sealer) BlockReload() (unblock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}
