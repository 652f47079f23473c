// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"encoding/json"
	"fmt"

	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/secret"
)

// sealedForm is what is inside of a sealed credential.
type sealedForm struct {
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
}

// place is where a credential lives: in the row of its connection alone, and
// only while that is its account's.
func place(c dnsconnection.Connection) string {
	return "dns_connections/" + string(c.AccountID) + "/" + c.ID
}

func (s *Service) seal(c dnsconnection.Connection, credential dnsconnection.Credential) ([]byte, error) {
	form := sealedForm{Settings: credential.Settings, Secrets: map[string]string{}}
	for name, text := range credential.Secrets {
		form.Secrets[name] = text.Reveal()
	}
	plain, err := json.Marshal(form)
	if err != nil {
		return nil, fmt.Errorf("seal credential: %w", err)
	}
	return s.Sealer.Seal(secret.New(string(plain)), place(c))
}

func (s *Service) unseal(c dnsconnection.Connection, sealed []byte) (dnsconnection.Credential, error) {
	plain, err := s.Sealer.Open(sealed, place(c))
	if err != nil {
		return dnsconnection.Credential{}, Unreadable{c.ID, err}
	}
	var form sealedForm
	if json.Unmarshal([]byte(plain.Reveal()), &form) != nil { // its words could quote a secret
		return dnsconnection.Credential{}, Unreadable{c.ID, fmt.Errorf("not in this release's form")}
	}
	credential := dnsconnection.Credential{Settings: form.Settings, Secrets: map[string]secret.Text{}}
	for name, text := range form.Secrets {
		credential.Secrets[name] = secret.New(text)
	}
	return credential, nil
}

// Unreadable is a connection whose credential does not open, as after the loss
// of the keyset.
type Unreadable struct {
	Connection string
	Cause      error
}

func (u Unreadable) Error() string {
	return "the credential of DNS connection " + u.Connection + " cannot be read: " + u.Cause.Error()
}

// Unwrap gives what the sealer says.
func (u Unreadable) Unwrap() error { return u.Cause }
