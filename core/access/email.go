// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"unicode"

	"github.com/tenantry/tenantry/core/fault"
)

// maxEmail is the longest address that mail can carry.
const maxEmail = 254

// CheckEmail returns an error if the text cannot be a member's address. It checks only the form.
func CheckEmail(email string) error {
	local, host, _ := strings.Cut(email, "@")
	strange := func(r rune) bool { return r == '@' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if local == "" || host == "" || len(email) > maxEmail || strings.ContainsFunc(local+host, strange) {
		return fault.InvalidRequest.With("an e-mail address has the form name@host")
	}
	return nil
}
