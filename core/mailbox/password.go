// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

const (
	minPassword     = 8
	maxPassword     = 256
	passwordClasses = 3
)

// CheckPassword refuses what the mail platform would refuse: weak_password.
func CheckPassword(password secret.Text) error {
	text := password.Reveal()
	if n := utf8.RuneCountInString(text); n < minPassword || n > maxPassword || classes(text) < passwordClasses {
		why := "8 to 256 characters with three of lower case, upper case, digit and other"
		return fault.WeakPassword.At("the password is too weak", fault.Field{Location: "body.account_password", Message: why})
	}
	return nil
}

func classes(text string) int {
	var lower, upper, digit, other int
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z':
			lower = 1
		case 'A' <= c && c <= 'Z':
			upper = 1
		case '0' <= c && c <= '9':
			digit = 1
		default:
			other = 1
		}
	}
	return lower + upper + digit + other
}
