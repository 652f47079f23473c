// SPDX-License-Identifier: Apache-2.0

package strictjson

import (
	"strconv"
	"unicode/utf16"
)

// scan checks the nesting depth and the escapes in strings, in one pass. It does not check the
// other syntax.
func scan(document []byte) error {
	depth := 0
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return ErrDepth
			}
		case '}', ']':
			depth--
		case '"':
			length, err := scanString(document[i+1:])
			if err != nil {
				return err
			}
			i += length
		}
	}
	return nil
}

// scanString checks the escapes of a string. rest begins after the opening quote. scanString
// returns the length of the string, including the closing quote.
func scanString(rest []byte) (int, error) {
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return i + 1, nil
		case '\\':
			length, err := scanEscape(rest[i:])
			if err != nil {
				return 0, err
			}
			i += length - 1
		}
	}
	return 0, ErrSyntax
}

// scanEscape checks one escape sequence, or the two sequences of a surrogate pair. It returns their
// length.
func scanEscape(rest []byte) (int, error) {
	first, ok := codeUnit(rest)
	switch {
	case !ok:
		return 2, nil
	case first == 0:
		return 0, ErrNull
	case !utf16.IsSurrogate(first):
		return 6, nil
	}
	second, ok := codeUnit(rest[6:])
	if !ok || utf16.DecodeRune(first, second) == '\uFFFD' {
		return 0, ErrSurrogate
	}
	return 12, nil
}

// codeUnit returns the UTF-16 code unit of a \uXXXX escape at the start of rest. It returns false
// if rest starts with anything else.
func codeUnit(rest []byte) (rune, bool) {
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(rest[2:6]), 16, 16)
	return rune(code), err == nil
}
