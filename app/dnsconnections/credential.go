// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"fmt"

	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/secret"
)

// associatedData returns the associated data of a sealed credential, which binds the credential to
// its connection and account.
func associatedData(c dnsconnection.Connection) string {
	return "dns_connections/" + string(c.AccountID) + "/" + c.ID
}

func (s *Service) seal(c dnsconnection.Connection, credential secret.Credential) ([]byte, error) {
	plaintext, err := credential.Encode()
	if err != nil {
		return nil, fmt.Errorf("seal credential: %w", err)
	}
	return s.Sealer.Seal(plaintext, associatedData(c))
}

func (s *Service) unseal(c dnsconnection.Connection, sealed []byte) (secret.Credential, error) {
	plaintext, err := s.Sealer.Open(sealed, associatedData(c))
	if err != nil {
		return secret.Credential{}, UnreadableError{c.ID, err}
	}
	credential, err := secret.DecodeCredential(plaintext)
	if err != nil {
		return secret.Credential{}, UnreadableError{c.ID, err}
	}
	return credential, nil
}

// UnreadableError is the error for a connection whose stored credential cannot be decrypted or
// decoded, for example because the keyset was lost.
type UnreadableError struct {
	Connection string
	Cause      error
}

// Error names the connection and the cause.
func (u UnreadableError) Error() string {
	return "the credential of DNS connection " + u.Connection + " cannot be read: " + u.Cause.Error()
}

// Unwrap returns Cause.
func (u UnreadableError) Unwrap() error { return u.Cause }
