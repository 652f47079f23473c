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

// workspaceField is the field of every credential that names the workspace. It
// is not stored with the others: the integration's row has it.
const workspaceField = "workspace_id"

// place is where a credential lives: in the row of its integration alone, for
// its provider, and only while that is its account's.
func place(i integration.Integration) string {
	return "integrations/" + string(i.AccountID) + "/" + i.ID + "/" + i.Provider
}

func (s *Service) seal(i integration.Integration, credential secret.Credential) ([]byte, error) {
	plain, err := credential.Encode()
	if err != nil {
		return nil, fmt.Errorf("seal credential: %w", err)
	}
	return s.Sealer.Seal(plain, place(i))
}

// reach is the platform as an integration reaches it.
func (s *Service) reach(i integration.Integration, sealed []byte) (ports.SendingPlatform, error) {
	plain, err := s.Sealer.Open(sealed, place(i))
	if err != nil {
		return nil, Unreadable{i.ID, err}
	}
	credential, err := secret.DecodeCredential(plain)
	if err != nil {
		return nil, Unreadable{i.ID, err}
	}
	return s.Platforms.For(i.Provider, within(credential, i.Workspace.ID)), nil
}

// within is the credential in a workspace.
func within(c secret.Credential, workspace string) secret.Credential {
	settings := map[string]string{}
	maps.Copy(settings, c.Settings)
	delete(settings, workspaceField)
	if workspace != "" {
		settings[workspaceField] = workspace
	}
	return secret.Credential{Settings: settings, Secrets: c.Secrets}
}

// given are the names of the fields that a credential has.
func given(c secret.Credential) []string {
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

// Unreadable is an integration whose credential does not open, as after the
// loss of the keyset.
type Unreadable struct {
	Integration string
	Cause       error
}

func (u Unreadable) Error() string {
	return "the credential of integration " + u.Integration + " cannot be read: " + u.Cause.Error()
}

// Unwrap gives what the sealer says.
func (u Unreadable) Unwrap() error { return u.Cause }
