// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/fault"
)

const maxName = 256

// CheckNames returns the specs with canonical display names. The adapter has
// brought text to Unicode's composed form (NFC) before. Refusal:
// invalid_request.
func CheckNames(specs []Spec) ([]Spec, error) {
	named := make([]Spec, len(specs))
	var bad []fault.Field
	for i, spec := range specs {
		name, why := displayName(spec.DisplayName)
		if why != "" {
			bad = append(bad, fault.Field{Location: fmt.Sprintf("body.mailboxes[%d].name", i), Message: why})
		}
		named[i] = Spec{DisplayName: name, Address: spec.Address}
	}
	if len(bad) > 0 {
		return nil, fault.InvalidRequest.At("a mailbox name is not valid", firstFields(bad)...)
	}
	return named, nil
}

// DisplayName returns the canonical form of one display name, which stands at
// location in the request. Refusal: invalid_request.
func DisplayName(raw, location string) (string, error) {
	name, why := displayName(raw)
	if why != "" {
		return "", fault.InvalidRequest.At("the display name is not valid", fault.Field{Location: location, Message: why})
	}
	return name, nil
}

func displayName(raw string) (name, why string) {
	if !utf8.ValidString(raw) {
		return "", "not UTF-8"
	}
	name = strings.TrimSpace(raw)
	visible := false
	for _, c := range name {
		if unicode.IsControl(c) || misleading(c) {
			return "", "holds a control character"
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

// misleading reports whether a character breaks a line or changes the text direction, so that a
// name could look like a different one. Joiners are allowed, because emoji and several scripts need
// them.
func misleading(c rune) bool {
	return c == '\u2028' || c == '\u2029' || unicode.Is(unicode.Bidi_Control, c)
}
