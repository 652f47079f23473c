// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// manifest is an application registration as Microsoft Graph takes it.
type manifest struct {
	DisplayName      string `json:"displayName"`
	SignInAudience   string `json:"signInAudience"`
	IsFallbackPublic bool   `json:"isFallbackPublicClient"`
	Web              struct {
		RedirectURIs  []string `json:"redirectUris"`
		ImplicitGrant struct {
			AccessToken bool `json:"enableAccessTokenIssuance"`
			IDToken     bool `json:"enableIdTokenIssuance"`
		} `json:"implicitGrantSettings"`
	} `json:"web"`
	Required []struct {
		Resource string `json:"resourceAppId"`
		Access   []struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"resourceAccess"`
	} `json:"requiredResourceAccess"`
}

const registrationPage = "../../deploy/microsoft365/"

func readManifest(t *testing.T, name string) (m manifest) {
	t.Helper()
	raw, err := os.ReadFile(registrationPage + name)
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if m.SignInAudience != "AzureADMultipleOrgs" || m.IsFallbackPublic || m.Web.ImplicitGrant.AccessToken || m.Web.ImplicitGrant.IDToken {
		t.Errorf("%s: audience %s, flows %+v", name, m.SignInAudience, m.Web.ImplicitGrant)
	}
	return m
}

// permission is a row of the page: what without fails first is a step of the
// main job.
type permission struct{ resource, name, id, kind, without string }

var permissionRow = regexp.MustCompile("(?m)^\\| (\\S+) \\| `([^`]+)` \\| `([0-9a-f-]{36})` \\| (Role|Scope) \\| [^|]+ \\| ([^|]+) \\|$")

func permissionRows(t *testing.T) map[string]permission {
	t.Helper()
	raw, err := os.ReadFile(registrationPage + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]permission{}
	for _, m := range permissionRow.FindAllStringSubmatch(string(raw), -1) {
		rows[m[3]] = permission{m[1], m[2], m[3], m[4], strings.TrimSpace(m[5])}
	}
	return rows
}

// explained are the permissions of a manifest, as the page names them.
func (m manifest) explained(t *testing.T) (roles, scopes []permission) {
	t.Helper()
	rows, resources := permissionRows(t), map[string]string{
		"Graph": "00000003-0000-0000-c000-000000000000", "Exchange": "00000002-0000-0ff1-ce00-000000000000",
	}
	for _, of := range m.Required {
		for _, access := range of.Access {
			row, ok := rows[access.ID]
			switch {
			case !ok || row.kind != access.Type || resources[row.resource] != of.Resource:
				t.Fatalf("the page does not say why %s %s is needed", access.Type, access.ID)
			case row.kind == "Role":
				roles = append(roles, row)
			default:
				scopes = append(scopes, row)
			}
		}
	}
	return roles, scopes
}
