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
type Text struct{ value string }

// New wraps value.
func New(value string) Text { return Text{value} }

// Reveal returns the value. Call it only where the secret leaves for the one
// place it is meant for.
func (t Text) Reveal() string { return t.value }

// Empty reports whether there is no secret.
func (t Text) Empty() bool { return t.value == "" }

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
