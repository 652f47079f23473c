// SPDX-License-Identifier: Apache-2.0

package strictjson

import (
	"strconv"
	"unicode/utf16"
)

// scan looks at every byte once: nesting outside strings, escapes inside. It
// makes no claim about the syntax of the rest.
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
			length, err := text(document[i+1:])
			if err != nil {
				return err
			}
			i += length
		}
	}
	return nil
}

// text scans a string from behind its opening quote and returns the length up
// to and with the closing one.
func text(rest []byte) (int, error) {
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return i + 1, nil
		case '\\':
			length, err := escape(rest[i:])
			if err != nil {
				return 0, err
			}
			i += length - 1
		}
	}
	return 0, ErrSyntax
}

// escape checks one escape sequence, a surrogate pair as a whole, and returns
// its length.
func escape(rest []byte) (int, error) {
	first, ok := unit(rest)
	switch {
	case !ok:
		return 2, nil
	case first == 0:
		return 0, ErrNull
	case !utf16.IsSurrogate(first):
		return 6, nil
	}
	second, ok := unit(rest[6:])
	if !ok || utf16.DecodeRune(first, second) == '\uFFFD' {
		return 0, ErrSurrogate
	}
	return 12, nil
}

// unit reads a \uXXXX escape at the beginning of rest.
func unit(rest []byte) (rune, bool) {
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(rest[2:6]), 16, 16)
	return rune(code), err == nil
}
