// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Smartlead's answers differ from its documentation: numbers can be strings, and lists can be
// inside an envelope. The types and functions of this file accept all of these forms.

// text decodes a JSON string or number. Any other JSON value decodes to "".
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

// flag decodes true, false, 1 and 0, also as JSON strings. known is false for any other JSON value.
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

// isFalse reports whether the flag has the value false.
func (f flag) isFalse() bool { return f.known && !f.on }

// present is false for null, false and an empty string, array or object, and true for any other
// JSON value.
type present bool

// UnmarshalJSON implements json.Unmarshaler.
func (p *present) UnmarshalJSON(raw []byte) error {
	var v any
	err := json.Unmarshal(raw, &v)
	switch fmt.Sprint(v) {
	case "<nil>", "", "false", "map[]", "[]":
		*p = false
	default:
		*p = true
	}
	return err
}

// decodeList decodes an array, or an object with an array in its member "data".
func decodeList[T any](body []byte) ([]T, bool) {
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '{' {
		var envelope struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(trimmed, &envelope) != nil || len(envelope.Data) == 0 || envelope.Data[0] != '[' {
			return nil, false
		}
		body = envelope.Data
	}
	var list []T
	err := json.Unmarshal(body, &list)
	return list, err == nil && list != nil
}

// problem is an error answer. It has the members of all error formats of Smartlead.
type problem struct {
	OK      flag   `json:"ok"`
	Success flag   `json:"success"`
	Message text   `json:"message"`
	Code    text   `json:"errorCode"`
	Error   detail `json:"error"`
}

// detail is the member "error", which is a string or an object.
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

// decodeProblem decodes the error members of an answer. ok is false if the answer is not a JSON
// object.
func decodeProblem(body []byte) (p problem, ok bool) {
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &p) != nil {
		return problem{}, false
	}
	return p, true
}

// isError reports whether the answer says that the call failed, whatever its status is.
func (p problem) isError() bool {
	return p.OK.isFalse() || p.Success.isFalse() || p.Error != detail{}
}

// code returns the error code, or "".
func (p problem) code() text { return cmp.Or(p.Code, p.Error.Code) }

// refusesKey reports whether the problem is about the API key. If there is a code, the code
// decides. Otherwise the problem is about the key if the message mentions it.
func (p problem) refusesKey() bool {
	if code := p.code(); code != "" {
		return code == "UNAUTHORIZED"
	}
	for _, message := range []text{p.Message, p.Error.Message} {
		if lower := strings.ToLower(string(message)); strings.Contains(lower, "api key") || strings.Contains(lower, "api_key") {
			return true
		}
	}
	return false
}
