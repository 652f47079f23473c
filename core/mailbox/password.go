// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

const (
	minPassword     = 8
	maxPassword     = 256
	passwordClasses = 3
)

// CheckPassword fails with weak_password for a password that the mail platform would reject.
func CheckPassword(password secret.Text) error {
	text := password.Reveal()
	if n := utf8.RuneCountInString(text); n < minPassword || n > maxPassword || classes(text) < passwordClasses {
		why := "8 to 256 characters with three of lower case, upper case, digit and other"
		return fault.WeakPassword.At("the password is too weak", fault.Field{Location: "body.account_password", Message: why})
	}
	return nil
}

// classes counts the classes that occur, by Unicode as the mail platform does:
// letters without case, title case and all the rest are other.
func classes(text string) int {
	var lower, upper, digit, other int
	for _, c := range text {
		switch {
		case unicode.IsLower(c):
			lower = 1
		case unicode.IsUpper(c):
			upper = 1
		case unicode.IsDigit(c):
			digit = 1
		default:
			other = 1
		}
	}
	return lower + upper + digit + other
}
