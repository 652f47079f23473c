// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// workspaceField is the credential field with the id of the workspace. The id is stored in the
// integration's row, not with the credential.
const workspaceField = "workspace_id"

// associatedData returns the associated data of a sealed credential, which binds the credential to
// its integration, provider and account.
func associatedData(i integration.Integration) string {
	return "integrations/" + string(i.AccountID) + "/" + i.ID + "/" + i.Provider
}

func (s *Service) seal(i integration.Integration, credential secret.Credential) ([]byte, error) {
	plaintext, err := credential.Encode()
	if err != nil {
		return nil, fmt.Errorf("seal credential: %w", err)
	}
	return s.Sealer.Seal(plaintext, associatedData(i))
}

// openPlatform decrypts the integration's credential and returns a client of the platform that uses
// the credential. It fails with UnreadableError if the credential cannot be decrypted or decoded.
func (s *Service) openPlatform(i integration.Integration, sealedCredential []byte) (ports.SendingPlatform, error) {
	plaintext, err := s.Sealer.Open(sealedCredential, associatedData(i))
	if err != nil {
		return nil, UnreadableError{i.ID, err}
	}
	credential, err := secret.DecodeCredential(plaintext)
	if err != nil {
		return nil, UnreadableError{i.ID, err}
	}
	return s.Platforms.For(i.Provider, withWorkspace(credential, i.Workspace.ID)), nil
}

// withWorkspace returns a copy of the credential with this workspace. If workspace is empty, the
// copy has no workspace.
func withWorkspace(c secret.Credential, workspace string) secret.Credential {
	settings := map[string]string{}
	maps.Copy(settings, c.Settings)
	delete(settings, workspaceField)
	if workspace != "" {
		settings[workspaceField] = workspace
	}
	return secret.Credential{Settings: settings, Secrets: c.Secrets}
}

// fieldNames returns the sorted names of the fields that are set.
func fieldNames(c secret.Credential) []string {
	var names []string
	for name, value := range c.Settings {
		if value != "" {
			names = append(names, name)
		}
	}
	for name, value := range c.Secrets {
		if value.Reveal() != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// UnreadableError is the error for an integration whose credential cannot be decrypted or decoded,
// for example after the keyset was lost.
type UnreadableError struct {
	Integration string
	Cause       error
}

// Error names the integration and the cause.
func (u UnreadableError) Error() string {
	return "the credential of integration " + u.Integration + " cannot be read: " + u.Cause.Error()
}

// Unwrap returns Cause.
func (u UnreadableError) Unwrap() error { return u.Cause }
