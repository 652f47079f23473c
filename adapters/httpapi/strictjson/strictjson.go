// SPDX-License-Identifier: Apache-2.0

// Package strictjson refuses what encoding/json lets pass and two readers may
// understand differently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// MaxDepth is how many levels of objects and arrays a document may have.
const MaxDepth = 16

// The refusals. None carries a part of the document, which may be secret.
var (
	ErrEncoding  = errors.New("not UTF-8")
	ErrDepth     = errors.New("nested deeper than 16 levels")
	ErrSyntax    = errors.New("not one well-formed JSON document")
	ErrNull      = errors.New("U+0000 in a string")
	ErrSurrogate = errors.New("half of a surrogate pair in a string")
	ErrDuplicate = errors.New("a member occurs twice in one object")
)

// Check accepts exactly one JSON document in UTF-8 without U+0000, lone
// surrogates, duplicate members or more than MaxDepth levels.
func Check(document []byte) error {
	if !utf8.Valid(document) {
		return ErrEncoding
	}
	// Depth comes before syntax, so that hostile nesting costs one cheap scan.
	if err := scan(document); err != nil {
		return err
	}
	if !json.Valid(document) {
		return ErrSyntax
	}
	tokens := json.NewDecoder(bytes.NewReader(document))
	tokens.UseNumber() // 1e400 is well-formed; whether it fits is the field's business
	return members(tokens)
}

// members walks one value and refuses objects with a repeated member.
func members(tokens *json.Decoder) error {
	token, err := tokens.Token()
	if err != nil {
		return ErrSyntax
	}
	open, composite := token.(json.Delim)
	if !composite {
		return nil
	}
	seen := map[string]bool{}
	for tokens.More() {
		if open == '{' {
			name, err := tokens.Token()
			if err != nil {
				return ErrSyntax
			}
			if seen[name.(string)] {
				return ErrDuplicate
			}
			seen[name.(string)] = true
		}
		if err := members(tokens); err != nil {
			return err
		}
	}
	_, err = tokens.Token() // the closing delimiter
	if err != nil {
		return ErrSyntax
	}
	return nil
}
