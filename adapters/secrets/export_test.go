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
