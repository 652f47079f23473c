// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Text is a property that should be a string. Exchange writes an unset string as null or as "". A
// value that is not a string is read as "".
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s)
	*t = Text(s)
	return nil
}

// Texts is a property that should be a list of strings. A single string is read as a list of one.
// null and "" are read as an empty list.
type Texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(raw []byte) error {
	var list []Text
	if json.Unmarshal(raw, &list) != nil {
		list = make([]Text, 1)
		_ = list[0].UnmarshalJSON(raw)
	}
	*t = nil
	for _, element := range list {
		if element != "" {
			*t = append(*t, string(element))
		}
	}
	return nil
}

// Bool is a property that should be a boolean. Exchange sometimes writes it as a string. If the
// value is neither a boolean nor such a string, Set is false.
type Bool struct{ Set, Value bool }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bool) UnmarshalJSON(raw []byte) error {
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "true":
		*b = Bool{true, true}
	case "false":
		*b = Bool{true, false}
	}
	return nil
}

// Int is a property that should be an integer, also in the form of a string. Any other value, such
// as null, is read as 0.
type Int int

// UnmarshalJSON implements json.Unmarshaler.
func (i *Int) UnmarshalJSON(raw []byte) error {
	n, _ := strconv.Atoi(strings.Trim(string(raw), `"`))
	*i = Int(n)
	return nil
}

// Time is a property that should be a time. It is converted to UTC. A time without an offset counts
// as UTC. Time is zero if the value has no known format.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, text); err == nil {
			t.Time = at.UTC()
		}
	}
	return nil
}
