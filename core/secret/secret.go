// SPDX-License-Identifier: Apache-2.0

// Package secret defines Text, a string that is never printed by accident, and Credential, the
// access of an account to a provider.
package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Text is a secret. When formatted, logged or marshalled it shows "[redacted]". Only Reveal returns
// the value.
//
// fmt calls no methods on unexported fields. For an unexported field of type Text, fmt prints the
// pointer, not the secret.
type Text struct{ value *string }

// New returns a Text that holds value.
func New(value string) Text {
	if value == "" {
		return Text{}
	}
	return Text{&value}
}

// Reveal returns the value. Call it only where the secret is passed to its intended recipient.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// Empty reports whether the value is the empty string.
func (t Text) Empty() bool { return t.value == nil }

// String implements fmt.Stringer.
func (Text) String() string { return redacted }

// GoString implements fmt.GoStringer (%#v).
func (Text) GoString() string { return redacted }

// Format implements fmt.Formatter for all verbs, including %x and %q.
func (Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, which encoding/json uses.
func (Text) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Text) LogValue() slog.Value { return slog.StringValue(redacted) }

// Credential holds the values of an account for the fields of a provider. It is stored encrypted as
// a whole, including the settings.
type Credential struct {
	Settings map[string]string
	Secrets  map[string]Text
}

// ErrUnreadable is the error for a text that is not an encoded credential.
var ErrUnreadable = errors.New("not a credential in the format of this release")

type credentialForm struct {
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
}

// Encode returns the credential as one text, to be encrypted.
func (c Credential) Encode() (Text, error) {
	form := credentialForm{Settings: c.Settings, Secrets: map[string]string{}}
	for name, text := range c.Secrets {
		form.Secrets[name] = text.Reveal()
	}
	encoded, err := json.Marshal(form)
	return New(string(encoded)), err
}

// DecodeCredential returns the credential that Encode encoded. Its error does not quote the text.
func DecodeCredential(encoded Text) (Credential, error) {
	var form credentialForm
	if json.Unmarshal([]byte(encoded.Reveal()), &form) != nil {
		return Credential{}, ErrUnreadable
	}
	c := Credential{Settings: form.Settings, Secrets: map[string]Text{}}
	for name, text := range form.Secrets {
		c.Secrets[name] = New(text)
	}
	return c, nil
}
