// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"encoding/json"
	"errors"
)

// Credential is what an account gave to reach a provider: the fields of the
// provider's description that are the account's. It is stored sealed as a
// whole, settings too.
type Credential struct {
	Settings map[string]string
	Secrets  map[string]Text
}

// ErrUnreadable is a text that no Encode of this release made.
var ErrUnreadable = errors.New("not in this release's form")

type credentialForm struct {
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
}

// Encode is the credential as one text, to be sealed.
func (c Credential) Encode() (Text, error) {
	form := credentialForm{Settings: c.Settings, Secrets: map[string]string{}}
	for name, text := range c.Secrets {
		form.Secrets[name] = text.Reveal()
	}
	plain, err := json.Marshal(form)
	return New(string(plain)), err
}

// DecodeCredential reads what Encode made. Its error quotes nothing.
func DecodeCredential(plain Text) (Credential, error) {
	var form credentialForm
	if json.Unmarshal([]byte(plain.Reveal()), &form) != nil {
		return Credential{}, ErrUnreadable
	}
	c := Credential{Settings: form.Settings, Secrets: map[string]Text{}}
	for name, text := range form.Secrets {
		c.Secrets[name] = New(text)
	}
	return c, nil
}
