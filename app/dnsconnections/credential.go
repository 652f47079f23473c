// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"fmt"

	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/secret"
)

// place is where a credential lives: in the row of its connection alone, and
// only while that is its account's.
func place(c dnsconnection.Connection) string {
	return "dns_connections/" + string(c.AccountID) + "/" + c.ID
}

func (s *Service) seal(c dnsconnection.Connection, credential secret.Credential) ([]byte, error) {
	plain, err := credential.Encode()
	if err != nil {
		return nil, fmt.Errorf("seal credential: %w", err)
	}
	return s.Sealer.Seal(plain, place(c))
}

func (s *Service) unseal(c dnsconnection.Connection, sealed []byte) (secret.Credential, error) {
	plain, err := s.Sealer.Open(sealed, place(c))
	if err != nil {
		return secret.Credential{}, Unreadable{c.ID, err}
	}
	credential, err := secret.DecodeCredential(plain)
	if err != nil {
		return secret.Credential{}, Unreadable{c.ID, err}
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
