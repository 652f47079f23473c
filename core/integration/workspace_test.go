// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

func TestChooseNeedsAnUnambiguousWorkspace(t *testing.T) {
	workspaceA, workspaceB := integration.Workspace{ID: "a", Name: "A"}, integration.Workspace{ID: "b", Name: "B"}
	withoutID := integration.Workspace{Name: "Main"}
	for _, tc := range []struct {
		name, provider, requested string
		reach                     integration.Reach
		want                      integration.Workspace
		wantErr                   error
	}{
		{"no workspace", "plusvibe", "", integration.Reach{}, integration.Workspace{}, fault.CredentialRejected},
		{"no workspace, one requested", "plusvibe", "a", integration.Reach{}, integration.Workspace{}, fault.CredentialRejected},
		{"the only workspace", "plusvibe", "", integration.Reach{Workspaces: []integration.Workspace{workspaceA}}, workspaceA, nil},
		{"the only workspace, requested by its id", "plusvibe", "a", integration.Reach{Workspaces: []integration.Workspace{workspaceA}}, workspaceA, nil},
		{"a different workspace than the only one", "plusvibe", "b", integration.Reach{Workspaces: []integration.Workspace{workspaceA}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"several workspaces", "plusvibe", "", integration.Reach{Workspaces: []integration.Workspace{workspaceA, workspaceB}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"one of several workspaces", "plusvibe", "b", integration.Reach{Workspaces: []integration.Workspace{workspaceA, workspaceB}}, workspaceB, nil},
		{"a workspace that is not among several", "salesblink", "c", integration.Reach{Workspaces: []integration.Workspace{workspaceA, workspaceB}}, integration.Workspace{}, fault.SalesBlinkWorkspace},
		{"a name is not an id", "plusvibe", "B", integration.Reach{Workspaces: []integration.Workspace{workspaceA, workspaceB}}, integration.Workspace{}, fault.PlusVibeWorkspace},
		{"several workspaces and only the selected one usable", "emailbison", "a", integration.Reach{Workspaces: []integration.Workspace{workspaceA, workspaceB}, SelectedWorkspaceOnly: true}, integration.Workspace{}, fault.EmailBisonWorkspace},
		{"one workspace and only the selected one usable", "emailbison", "", integration.Reach{Workspaces: []integration.Workspace{workspaceA}, SelectedWorkspaceOnly: true}, workspaceA, nil},
		{"a platform without workspaces", "smartlead", "", integration.Reach{Workspaces: []integration.Workspace{withoutID}}, withoutID, nil},
		{"a platform that validates the workspace itself", "smartlead", "7", integration.Reach{Workspaces: []integration.Workspace{withoutID}}, integration.Workspace{ID: "7", Name: "Main"}, nil},
		{"a platform without its own error code", "instantly", "b", integration.Reach{Workspaces: []integration.Workspace{workspaceA}}, integration.Workspace{}, fault.InvalidRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.reach.Choose(tc.provider, tc.requested)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Fatalf("got %+v, %v; want %+v, %v", got, err, tc.want, tc.wantErr)
			}
			if err != nil && len(tc.reach.Workspaces) > 0 && !cmp.Equal(fault.ErrorOf(err).Values, any(tc.reach.Workspaces)) {
				t.Errorf("the error lists %v, want %v", fault.ErrorOf(err).Values, tc.reach.Workspaces)
			}
		})
	}
}

// TestChooseStaysWithinReach checks that Choose returns only workspaces to which the credential has
// access. If there are several, Choose returns a workspace only if the caller requests it.
func TestChooseStaysWithinReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID[string]).Draw(t, "ids")
		requested := rapid.SampledFrom([]string{"", "a", "b", "e"}).Draw(t, "requested")
		var reach integration.Reach
		for _, id := range ids {
			reach.Workspaces = append(reach.Workspaces, integration.Workspace{ID: id})
		}
		reach.SelectedWorkspaceOnly = rapid.Bool().Draw(t, "selected workspace only")
		got, err := reach.Choose("plusvibe", requested)
		if err != nil {
			return
		}
		if len(ids) > 1 && (requested == "" || reach.SelectedWorkspaceOnly) || requested != "" && got.ID != requested {
			t.Fatalf("Choose returns %q for the request %q and the workspaces %v, want an error", got.ID, requested, ids)
		}
		if !slices.Contains(ids, got.ID) {
			t.Fatalf("Choose returns %q, which is not one of the workspaces %v", got.ID, ids)
		}
	})
}
