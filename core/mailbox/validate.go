// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

const (
	maxLocal   = 64
	maxAddress = 254
	// maxFields is the maximum number of fields in an error, so that the answer to a large request
	// stays short.
	maxFields = 10
)

// CheckAddresses returns the specs with canonical addresses, all on the domain of the request. It
// fails with invalid_mailbox_email or duplicate_mailbox_email.
func CheckAddresses(domainName string, specs []Spec) ([]Spec, error) {
	canonical := make([]Spec, len(specs))
	var invalid, repeated []fault.Field
	seen := make(map[string]bool, len(specs))
	for i, spec := range specs {
		field := fmt.Sprintf("mailboxes[%d].email", i)
		address, ok := canonicalAddress(spec.Address, domainName)
		switch {
		case !ok:
			invalid = append(invalid, fault.Field{Name: field, Message: "not a plain local part followed by @ and the domain of the request"})
		case seen[address]:
			repeated = append(repeated, fault.Field{Name: field, Message: "the same address occurs earlier in the request"})
		}
		seen[address] = true
		canonical[i] = Spec{DisplayName: spec.DisplayName, Address: address}
	}
	if len(invalid) > 0 {
		return nil, fault.InvalidMailboxEmail.At("a mailbox address is not valid for the domain", firstFields(invalid)...)
	}
	if len(repeated) > 0 {
		return nil, fault.DuplicateMailboxEmail.At("an address occurs more than once", firstFields(repeated)...)
	}
	return canonical, nil
}

func firstFields(fields []fault.Field) []fault.Field { return fields[:min(len(fields), maxFields)] }

func canonicalAddress(raw, domainName string) (string, bool) {
	local, host, split := strings.Cut(raw, "@")
	if !split || !isPlainLocal(local) || strings.HasSuffix(host, ".") || domain.ParseNameOrNone(host) != domainName {
		return "", false
	}
	canonical := strings.ToLower(local) + "@" + domainName
	return canonical, len(canonical) <= maxAddress
}

// isPlainLocal reports whether a local part is valid in an SMTP address, a sign-in name and a
// mailbox alias, without quoting. "+" is not allowed, because the platform treats it as the start
// of a tag.
func isPlainLocal(local string) bool {
	if local == "" || len(local) > maxLocal ||
		strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return false
	}
	for _, c := range []byte(local) {
		if !isAlphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

const maxName = 256

// CheckNames returns the specs with canonical display names. The names must already be in the
// Unicode form NFC. CheckNames fails with invalid_request.
func CheckNames(specs []Spec) ([]Spec, error) {
	named := make([]Spec, len(specs))
	var invalid []fault.Field
	for i, spec := range specs {
		name, problem := displayName(spec.DisplayName)
		if problem != "" {
			invalid = append(invalid, fault.Field{Name: fmt.Sprintf("mailboxes[%d].name", i), Message: problem})
		}
		named[i] = Spec{DisplayName: name, Address: spec.Address}
	}
	if len(invalid) > 0 {
		return nil, fault.InvalidRequest.At("a mailbox name is not valid", firstFields(invalid)...)
	}
	return named, nil
}

// DisplayName returns the canonical form of one display name. It fails with invalid_request. field
// is the name of the request field that has the display name, for the error.
func DisplayName(raw, field string) (string, error) {
	name, problem := displayName(raw)
	if problem != "" {
		return "", fault.InvalidRequest.At("the display name is not valid", fault.Field{Name: field, Message: problem})
	}
	return name, nil
}

func displayName(raw string) (name, problem string) {
	if !utf8.ValidString(raw) {
		return "", "not UTF-8"
	}
	name = strings.TrimSpace(raw)
	visible := false
	for _, c := range name {
		if unicode.IsControl(c) || isMisleading(c) {
			return "", "contains a control character, a line separator or a text direction mark"
		}
		visible = visible || !unicode.IsSpace(c) && !unicode.Is(unicode.Cf, c)
	}
	switch n := utf8.RuneCountInString(name); {
	case !visible:
		return "", "empty"
	case n > maxName:
		return "", "longer than 256 characters"
	default:
		return name, ""
	}
}

// isMisleading reports whether a character breaks a line or changes the text direction, so that a
// name could look like a different one. Joiners are allowed, because emoji and several scripts need
// them.
func isMisleading(c rune) bool {
	return c == '\u2028' || c == '\u2029' || unicode.Is(unicode.Bidi_Control, c)
}

const (
	minPassword     = 8
	maxPassword     = 256
	passwordClasses = 3
)

// CheckPassword fails with weak_password for a password that breaks the mail platform's rules for
// the length and the character classes.
func CheckPassword(password secret.Text) error {
	text := password.Reveal()
	if n := utf8.RuneCountInString(text); n < minPassword || n > maxPassword || countClasses(text) < passwordClasses {
		requirement := "8 to 256 characters with three of lower case, upper case, digit and other"
		return fault.WeakPassword.At("the password is too weak", fault.Field{Name: "account_password", Message: requirement})
	}
	return nil
}

// countClasses returns the number of character classes in a text. It counts them by Unicode, as the
// mail platform does: lower case, upper case, digits, and all other characters.
func countClasses(text string) int {
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
