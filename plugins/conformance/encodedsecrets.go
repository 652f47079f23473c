// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// unescapedForms returns the texts that a request can contain instead of a secret, without the
// escapes of URLs and JSON: the secret, the secret with a plus sign for each space, and the base64
// of a text that contains the secret, such as the credentials of Basic authentication.
func unescapedForms(value string) []string {
	forms := []string{value, strings.ReplaceAll(value, " ", "+")}
	// Base64 encodes each group of three bytes as four characters, so the characters of the secret
	// depend on its offset in a group. The first and the last character can also contain bits of
	// the text around the secret. They are left out.
	for offset := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), value...))
		encoded = encoded[(8*offset+5)/6 : 8*(offset+len(value))/6]
		forms = append(forms, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	return forms
}

// redactEscaped replaces the forms in text, in which each character can be escaped. unescape
// returns the character at the beginning of a text, and the number of bytes of its escape.
func redactEscaped(text string, unescape func(string) (string, int), forms []string) string {
	var decoded strings.Builder
	var starts []int // for each byte of decoded: where its character begins in text
	for at := 0; at < len(text); {
		character, width := unescape(text[at:])
		for range len(character) {
			starts = append(starts, at)
		}
		decoded.WriteString(character)
		at += width
	}
	starts = append(starts, len(text))
	isSecret := make([]bool, decoded.Len())
	for _, form := range forms {
		for at := 0; ; at += len(form) {
			next := strings.Index(decoded.String()[at:], form)
			if next < 0 {
				break
			}
			at += next
			for i := range len(form) {
				isSecret[at+i] = true
			}
		}
	}
	var redacted strings.Builder
	for i := range isSecret {
		switch {
		case !isSecret[i]:
			redacted.WriteString(text[starts[i]:starts[i+1]])
		case i == 0 || !isSecret[i-1]:
			redacted.WriteString("[redacted]")
		}
	}
	return redacted.String()
}

// percentEscape decodes the escape of a byte in a URL.
func percentEscape(text string) (string, int) {
	if len(text) >= 3 && text[0] == '%' {
		if b, err := hex.DecodeString(text[1:3]); err == nil {
			return string(b), 3
		}
	}
	return text[:1], 1
}

// jsonEscape decodes the escape of a character in a JSON string: two \u escapes for a character
// outside the Basic Multilingual Plane, one \u escape, or a backslash with one more character.
func jsonEscape(text string) (string, int) {
	for _, width := range []int{12, 6, 2} {
		var decoded string
		if len(text) >= width && text[0] == '\\' && json.Unmarshal([]byte(`"`+text[:width]+`"`), &decoded) == nil && utf8.RuneCountInString(decoded) == 1 {
			return decoded, width
		}
	}
	return text[:1], 1
}
