// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// What Smartlead answers differs from what it publishes: numbers come as
// strings, lists with and without an envelope. These types take all of it.

// text is a string or a number; anything else is none.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*t = text(strings.TrimSpace(s))
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		*t = text(raw)
	}
	return nil
}

// flag is a truth value that may be missing.
type flag struct{ known, on bool }

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(raw []byte) error {
	var v any
	err := json.Unmarshal(raw, &v)
	switch word := strings.ToLower(fmt.Sprint(v)); word {
	case "true", "1", "false", "0":
		*f = flag{known: true, on: word == "true" || word == "1"}
	default:
		*f = flag{}
	}
	return err
}

func (f flag) no() bool { return f.known && !f.on }

// said is whether there is something, whatever it is.
type said bool

// UnmarshalJSON implements json.Unmarshaler.
func (s *said) UnmarshalJSON(raw []byte) error {
	var v any
	err := json.Unmarshal(raw, &v)
	switch fmt.Sprint(v) {
	case "<nil>", "", "false", "map[]", "[]":
		*s = false
	default:
		*s = true
	}
	return err
}

// list reads a bare array, or one in the member `data`.
func list[T any](body []byte) ([]T, bool) {
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '{' {
		var envelope struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(trimmed, &envelope) != nil || len(envelope.Data) == 0 || envelope.Data[0] != '[' {
			return nil, false
		}
		body = envelope.Data
	}
	var all []T
	return all, json.Unmarshal(body, &all) == nil && all != nil
}

// complaint is an error in any of the three shapes that Smartlead has.
type complaint struct {
	OK      flag   `json:"ok"`
	Success flag   `json:"success"`
	Message text   `json:"message"`
	Code    text   `json:"errorCode"`
	Error   detail `json:"error"`
}

// detail is the member `error`: a text or an object.
type detail struct {
	Code, Message text
	RetryAfter    text
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *detail) UnmarshalJSON(raw []byte) error {
	*d = detail{}
	if raw[0] != '{' {
		return json.Unmarshal(raw, &d.Message)
	}
	var object struct {
		Code       text `json:"code"`
		Message    text `json:"message"`
		RetryAfter text `json:"retry_after"`
	}
	err := json.Unmarshal(raw, &object)
	*d = detail(object)
	return err
}

// complaintIn reads what an answer complains of. An answer that is no JSON
// object says nothing.
func complaintIn(body []byte) (complaint, bool) {
	var c complaint
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &c) != nil {
		return complaint{}, false
	}
	return c, true
}

// refuses reports whether an answer with a good status is an error all the same.
func (c complaint) refuses() bool {
	return c.OK.no() || c.Success.no() || c.Error != detail{}
}

// ofKey reports whether the key is what is wrong.
func (c complaint) ofKey() bool {
	for _, words := range []text{c.Message, c.Error.Message} {
		if said := strings.ToLower(string(words)); strings.Contains(said, "api key") || strings.Contains(said, "api_key") {
			return true
		}
	}
	return false
}
