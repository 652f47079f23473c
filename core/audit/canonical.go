// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxInteger is the largest integer that RFC 7493 (I-JSON) allows, because parsers that use float64
// round larger integers.
const maxInteger = 1<<53 - 1

// appendCanonical appends the canonical JSON (RFC 8785) of a value to text. A value is nil, a bool,
// a string in UTF-8, an integer (int64 or json.Number) from -maxInteger to maxInteger, a []any or a
// map[string]any. Entries have no other values.
func appendCanonical(text []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(text, "null"...), nil
	case bool:
		return strconv.AppendBool(text, v), nil
	case string:
		return appendString(text, v)
	case int64:
		return appendInteger(text, float64(v))
	case json.Number:
		number, err := v.Float64()
		if err != nil {
			return nil, err
		}
		return appendInteger(text, number)
	case []any:
		return appendArray(text, v)
	case map[string]any:
		return appendObject(text, v)
	default:
		return nil, fmt.Errorf("contains a value of the type %T, which an entry cannot have", value)
	}
}

func appendInteger(text []byte, number float64) ([]byte, error) {
	if number != math.Trunc(number) || math.Abs(number) > maxInteger {
		return nil, errors.New("contains a number that is not an integer of at most 53 bits")
	}
	return strconv.AppendInt(text, int64(number), 10), nil
}

func appendArray(text []byte, list []any) (_ []byte, err error) {
	text = append(text, '[')
	for i, item := range list {
		if i > 0 {
			text = append(text, ',')
		}
		if text, err = appendCanonical(text, item); err != nil {
			return nil, err
		}
	}
	return append(text, ']'), nil
}

func appendObject(text []byte, members map[string]any) (_ []byte, err error) {
	names := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	text = append(text, '{')
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		if text, err = appendString(text, name); err != nil {
			return nil, err
		}
		if text, err = appendCanonical(append(text, ':'), members[name]); err != nil {
			return nil, err
		}
	}
	return append(text, '}'), nil
}

var escapes = map[byte]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`}

func appendString(text []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("contains a string that is not UTF-8")
	}
	text = append(text, '"')
	for i := range len(s) {
		switch escape := escapes[s[i]]; {
		case escape != "":
			text = append(text, escape...)
		case s[i] < ' ':
			text = fmt.Appendf(text, `\u%04x`, s[i])
		default:
			text = append(text, s[i])
		}
	}
	return append(text, '"'), nil
}

// parseObject parses a line that is one JSON object. It refuses duplicate member names and text
// that is not UTF-8, because two parsers can read these differently.
func parseObject(line []byte) (map[string]any, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	value, err := parseValue(d)
	if errors.Is(err, errDuplicate) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New("not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return object, nil
}

var errDuplicate = errors.New("a member name occurs twice")

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return parseMembers(d)
	case json.Delim('['):
		return parseItems(d)
	default:
		return token, nil
	}
}

func parseMembers(d *json.Decoder) (any, error) {
	members := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder accepts no other names
		if _, duplicate := members[name]; duplicate {
			return nil, errDuplicate
		}
		if members[name], err = parseValue(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return members, err
}

func parseItems(d *json.Decoder) (any, error) {
	items := []any{}
	for d.More() {
		item, err := parseValue(d)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := d.Token()
	return items, err
}
