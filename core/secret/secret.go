// SPDX-License-Identifier: Apache-2.0

// Package secret holds a string that cannot be printed by accident.
package secret

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Text is a secret. However it is formatted, logged or marshalled it shows
// "[redacted]"; only Reveal gives the value.
//
// The value sits behind a pointer because fmt calls no methods on unexported
// fields: a struct that hides a Text would print a string, but prints an
// address.
type Text struct{ value *string }

// New wraps value.
func New(value string) Text {
	if value == "" {
		return Text{}
	}
	return Text{&value}
}

// Reveal returns the value. Call it only where the secret leaves for the one
// place it is meant for.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// Empty reports whether there is no secret.
func (t Text) Empty() bool { return t.value == nil }

// String implements fmt.Stringer.
func (Text) String() string { return redacted }

// GoString implements fmt.GoStringer (%#v).
func (Text) GoString() string { return redacted }

// Format covers every verb, %x and %q included.
func (Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText covers encoding/json and everything else that asks for text.
func (Text) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Text) LogValue() slog.Value { return slog.StringValue(redacted) }
