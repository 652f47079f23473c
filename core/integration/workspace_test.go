// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

func TestChoose(t *testing.T) {
	a, b := integration.Workspace{ID: "a", Name: "A"}, integration.Workspace{ID: "b", Name: "B"}
	nameless := integration.Workspace{Name: "Main"}
	for _, tt := range []struct {
		name, provider, given string
		reach                 integration.Reach
		want                  integration.Workspace
		refusal               error
	}{
		{"none", "plusvibe", "", integration.Reach{}, integration.Workspace{}, fault.CredentialRejected},
		{"none, one asked for", "plusvibe", "a", integration.Reach{}, integration.Workspace{}, fault.CredentialRejected},
		{"the only one", "plusvibe", "", integration.Reach{Workspaces: []integration.Workspace{a}}, a, nil},
		{"the only one, by name", "plusvibe", "a", integration.Reach{Workspaces: []integration.Workspace{a}}, a, nil},
		{"not the only one", "plusvibe", "b", integration.Reach{Workspaces: []integration.Workspace{a}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"several", "plusvibe", "", integration.Reach{Workspaces: []integration.Workspace{a, b}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"one of several", "plusvibe", "b", integration.Reach{Workspaces: []integration.Workspace{a, b}}, b, nil},
		{"none of several", "salesblink", "c", integration.Reach{Workspaces: []integration.Workspace{a, b}}, integration.Workspace{}, fault.SalesBlinkWorkspace},
		{"no id is none of several", "plusvibe", "B", integration.Reach{Workspaces: []integration.Workspace{a, b}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"roaming", "emailbison", "a", integration.Reach{Workspaces: []integration.Workspace{a, b}, Roaming: true}, integration.Workspace{}, fault.EmailBisonWorkspace},
		{"roaming in one", "emailbison", "", integration.Reach{Workspaces: []integration.Workspace{a}, Roaming: true}, a, nil},
		{"a platform without workspaces", "smartlead", "", integration.Reach{Workspaces: []integration.Workspace{nameless}}, nameless, nil},
		{"a platform that judges itself", "smartlead", "7", integration.Reach{Workspaces: []integration.Workspace{nameless}}, integration.Workspace{ID: "7", Name: "Main"}, nil},
		{"a platform without a code of its own", "instantly", "b", integration.Reach{Workspaces: []integration.Workspace{a}}, integration.Workspace{}, fault.InvalidRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.reach.Choose(tt.provider, tt.given)
			if got != tt.want || !errors.Is(err, tt.refusal) {
				t.Fatalf("%+v, %v", got, err)
			}
			if err != nil && len(tt.reach.Workspaces) > 0 && !cmp.Equal(fault.Of(err).Shows, any(tt.reach.Workspaces)) {
				t.Errorf("shows %v", fault.Of(err).Shows)
			}
		})
	}
}

// Whatever is chosen is within reach, and never somebody's guess.
func TestChooseStaysWithinReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID[string]).Draw(t, "ids")
		given := rapid.SampledFrom([]string{"", "a", "b", "e"}).Draw(t, "given")
		var reach integration.Reach
		for _, id := range ids {
			reach.Workspaces = append(reach.Workspaces, integration.Workspace{ID: id})
		}
		reach.Roaming = rapid.Bool().Draw(t, "roaming")
		got, err := reach.Choose("plusvibe", given)
		if err != nil {
			return
		}
		if len(ids) > 1 && (given == "" || reach.Roaming) || given != "" && got.ID != given {
			t.Fatalf("%q of %v is %q", given, ids, got.ID)
		}
		found := false
		for _, id := range ids {
			found = found || id == got.ID
		}
		if !found {
			t.Fatalf("%q is not in %v", got.ID, ids)
		}
	})
}
