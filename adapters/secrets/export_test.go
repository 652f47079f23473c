// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"io"

	"github.com/tenantry/tenantry/core/secret"
)

// EncryptFast is Encrypt with a small work factor. The race detector makes scrypt twenty times
// slower.
func EncryptFast(to io.Writer, passphrase secret.Text) (io.WriteCloser, error) {
	return encrypt(to, passphrase, 10)
}

// BlockReload blocks the goroutines that check the keyset file until the returned function is
// called, as a slow disk does.
func (s *Sealer) BlockReload() (unblock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}
