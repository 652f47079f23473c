// SPDX-License-Identifier: Apache-2.0

// Package strictjson refuses JSON documents that encoding/json accepts but other parsers may read
// differently. Check, in strictjson.go, is its only exported function. scan.go checks the depth and
// the escapes in strings before the JSON is parsed. The package does not check which members an
// object has.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// MaxDepth is the maximum number of nested objects and arrays.
const MaxDepth = 16

// The errors of Check. They do not contain parts of the document, because it may contain secrets.
var (
	ErrEncoding  = errors.New("not UTF-8")
	ErrDepth     = errors.New("nested deeper than 16 levels")
	ErrSyntax    = errors.New("not one well-formed JSON document")
	ErrNull      = errors.New("U+0000 in a string")
	ErrSurrogate = errors.New("half of a surrogate pair in a string")
	ErrDuplicate = errors.New("a member occurs twice in one object")
)

// Check returns nil if document is exactly one JSON value in UTF-8. It refuses U+0000, lone
// surrogates, duplicate members and more than MaxDepth levels.
func Check(document []byte) error {
	if !utf8.Valid(document) {
		return ErrEncoding
	}
	// The depth is checked before the document is parsed, so that deeply nested input costs little.
	if err := scan(document); err != nil {
		return err
	}
	if !json.Valid(document) {
		return ErrSyntax
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // 1e400 is valid JSON, but does not fit into a float64
	return checkMembers(decoder)
}

// checkMembers reads one value and returns ErrDuplicate when an object repeats a member.
func checkMembers(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return ErrSyntax
	}
	delim, composite := token.(json.Delim)
	if !composite {
		return nil
	}
	seen := map[string]bool{}
	for decoder.More() {
		if delim == '{' {
			name, err := decoder.Token()
			if err != nil {
				return ErrSyntax
			}
			if seen[name.(string)] {
				return ErrDuplicate
			}
			seen[name.(string)] = true
		}
		if err := checkMembers(decoder); err != nil {
			return err
		}
	}
	_, err = decoder.Token() // the closing delimiter
	if err != nil {
		return ErrSyntax
	}
	return nil
}
