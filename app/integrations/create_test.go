// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

func TestCreateTestsAndStores(t *testing.T) {
	fx := newFixture(t)
	v, err := fx.Create(t.Context(), integrations.New{Account: fx.acc.ID, Provider: "instantly", Name: "Main", APIKey: secret.New(`{"api_key":"key","partner":"s3cret"}`)}, nil)
	must(t, err)
	want := integrations.View{
		Integration: integration.Integration{
			ID: v.ID, AccountID: fx.acc.ID, Provider: "instantly", Name: "Main", Workspace: integration.Workspace{ID: "ws-1", Name: "Workspace 1"},
			Status: integration.Connected, CredentialFields: []string{"api_key", "partner"}, LastTestedAt: fx.clock, CreatedAt: fx.clock, UpdatedAt: fx.clock,
		},
		Capabilities: integration.Capabilities{OAuth: true, MailboxRefresh: true, MailboxDisconnect: true},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	all, err := fx.List(t.Context(), fx.acc.ID)
	must(t, err)
	if diff := cmp.Diff([]integrations.View{want}, all); diff != "" {
		t.Error(diff)
	}
	if others, err := fx.List(t.Context(), fx.bob.ID); err != nil || len(others) > 0 {
		t.Errorf("a different account sees %v, %v", others, err)
	}
	_, sealed, err := fx.store.Integration(t.Context(), fx.acc.ID, v.ID)
	must(t, err)
	for _, part := range []string{"s3cret", "partner", "api_key"} {
		if strings.Contains(string(sealed), part) {
			t.Errorf("%q can be read", part)
		}
	}
	if n := fx.instantly.Calls("Check"); n != 1 {
		t.Errorf("tested %d times", n)
	}
}

func TestRejectedCredentialIsNotStored(t *testing.T) {
	fx := newFixture(t)
	fx.platforms.AddWorkspace("instantly", "down", "", fake.UnreachableSendingPlatform())
	absurd, unpaid, stuck := fake.NewSendingPlatform(), fake.NewSendingPlatform(), fake.NewSendingPlatform()
	absurd.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.InvalidRequest})
	unpaid.SetPlanEnded(true)
	stuck.Fail(fake.Fault{Kind: outcome.Unknown})
	empty := fake.NewSendingPlatform()
	empty.Reach.Workspaces = nil
	fx.platforms.AddWorkspace("instantly", "absurd", "", absurd)
	fx.platforms.AddWorkspace("instantly", "unpaid", "", unpaid)
	fx.platforms.AddWorkspace("instantly", "stuck", "", stuck)
	fx.platforms.AddWorkspace("instantly", "empty", "", empty)
	for _, tt := range []struct {
		provider, key string
		want          fault.Code
	}{
		{"instantly", "s3cret", fault.CredentialRejected},
		{"instantly", "unpaid", fault.CredentialRejected},
		{"instantly", "empty", fault.CredentialRejected},
		{"instantly", "down", fault.ProviderUnavailable},
		{"instantly", "stuck", fault.ProviderTimeout},
		{"instantly", "absurd", fault.InvalidRequest},
		{"instantly", "{s3cret", fault.InvalidRequest},
		{"lemlist", "s3cret", fault.UnknownProvider},
	} {
		_, err := fx.Create(t.Context(), integrations.New{Account: fx.acc.ID, Provider: tt.provider, Name: "x", APIKey: secret.New(tt.key)}, nil)
		f := refused(t, err, tt.want)
		if tt.key == "absurd" && (len(f.Fields) != 1 || f.Fields[0].Name != "api_key") {
			t.Errorf("the error names %v", f.Fields)
		}
		if tt.key == "unpaid" && !strings.Contains(f.Detail, "plan") {
			t.Errorf("a plan that ended is called %q", f.Detail)
		}
	}
	if all, err := fx.List(t.Context(), fx.acc.ID); err != nil || len(all) > 0 {
		t.Fatalf("stored %v, %v", all, err)
	}
}

// TestWorkspaceIsChosen checks that a key for several workspaces is stored with the workspace that
// the caller names, and that later calls use this workspace.
func TestWorkspaceIsChosen(t *testing.T) {
	fx := newFixture(t)
	reach := integration.Reach{Workspaces: []integration.Workspace{{ID: "a", Name: "A"}, {ID: "b", Name: "B"}}}
	at := map[string]*fake.SendingPlatform{}
	for _, workspace := range []string{"", "a", "b", "c"} {
		at[workspace] = fake.NewSendingPlatform()
		at[workspace].Reach = reach
		fx.platforms.AddWorkspace("plusvibe", "many", workspace, at[workspace])
	}
	create := func(workspace string) (integrations.View, error) {
		return fx.Create(t.Context(), integrations.New{Account: fx.acc.ID, Provider: "plusvibe", Name: "x", APIKey: secret.New("many"), WorkspaceID: workspace}, nil)
	}
	for _, asked := range []string{"", "c"} {
		_, err := create(asked)
		f := refused(t, err, fault.PlusVibeWorkspace)
		if diff := cmp.Diff(reach.Workspaces, f.Values); diff != "" {
			t.Errorf("asked for %q: %s", asked, diff)
		}
	}
	v, err := create("b")
	must(t, err)
	if v.Workspace.Name != "B" || slices.Contains(v.CredentialFields, "workspace_id") {
		t.Errorf("stored %+v", v.Integration)
	}
	fx.refresh(t, v.ID)
	if at["b"].Calls("Accounts") != 1 || at[""].Calls("Accounts") != 0 {
		t.Error("the refresh went to another workspace")
	}
}

func TestTestStoresHowItEnded(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.wait(time.Hour)
	lift := fx.instantly.Fail(fake.Fault{Method: "Check", Kind: outcome.Refused, Code: fault.AccessDenied})
	got, err := fx.Test(t.Context(), fx.acc.ID, id, nil)
	must(t, err)
	stored := fx.integration(t, id)
	if got.Status != integration.Failed || got.Message == "" || stored.Status != integration.Failed || !stored.HasError || stored.LastTestedAt != fx.clock {
		t.Errorf("%+v, stored %+v", got, stored)
	}
	lift()
	fx.instantly.Reach.Workspaces[0].Name = "Renamed"
	got, err = fx.Test(t.Context(), fx.acc.ID, id, nil)
	must(t, err)
	stored = fx.integration(t, id)
	if got.Status != integration.Connected || stored.HasError || stored.Status != integration.Connected || stored.Workspace.Name != "Renamed" {
		t.Errorf("%+v, stored %+v", got, stored)
	}
	fx.instantly.Reach.Workspaces[0].ID = "another"
	if got, err = fx.Test(t.Context(), fx.acc.ID, id, nil); err != nil || got.Status != integration.Failed {
		t.Errorf("a deleted workspace: %+v, %v", got, err)
	}
	fx.instantly.Fail(fake.Fault{Kind: outcome.Down})
	before := fx.integration(t, id)
	fx.wait(time.Hour)
	_, err = fx.Test(t.Context(), fx.acc.ID, id, nil)
	refused(t, err, fault.ProviderUnavailable)
	if diff := cmp.Diff(before, fx.integration(t, id)); diff != "" {
		t.Errorf("a platform that cannot be asked changed the integration: %s", diff)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fx.Test(given, fx.acc.ID, id, nil); err == nil {
		t.Error("a cancelled test has an answer")
	}
	_, err = fx.Test(t.Context(), fx.bob.ID, id, nil)
	refused(t, err, fault.IntegrationNotFound)
}

// TestACredentialIsOfItsIntegrationAccountAndProvider checks that a sealed credential opens only in
// the row that it was sealed for.
func TestACredentialIsOfItsIntegrationAccountAndProvider(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	i, sealed, err := fx.store.Integration(t.Context(), fx.acc.ID, id)
	must(t, err)
	other := i
	other.ID, other.AccountID = "019aa000-0000-7000-8000-000000000001", fx.bob.ID
	same := i
	same.ID = "019aa000-0000-7000-8000-000000000002"
	moved := i
	moved.Provider = "plusvibe"
	must(t, fx.store.RemoveIntegration(t.Context(), fx.acc.ID, id, nil))
	for _, i := range []integration.Integration{other, same, moved} {
		must(t, fx.store.AddIntegration(t.Context(), i, sealed, nil))
		var unreadable integrations.Unreadable
		if _, err := fx.Test(t.Context(), i.AccountID, i.ID, nil); !errors.As(err, &unreadable) || fault.Of(err).Code != fault.InternalError {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

// TestDeleteLetsOtherIntegrationsConnect checks that other integrations can connect the mailboxes
// after Delete, and that Delete does not call the platform.
func TestDeleteLetsOtherIntegrationsConnect(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	fx.connect(t, id, fx.anna)
	calls := fx.instantly.Calls("Remove") + fx.instantly.Calls("Account")
	_, err := fx.Delete(t.Context(), fx.bob.ID, id, nil)
	refused(t, err, fault.IntegrationNotFound)
	gone, err := fx.Delete(t.Context(), fx.acc.ID, id, nil)
	if err != nil || gone.ID != id {
		t.Fatalf("%+v, %v", gone, err)
	}
	if n := fx.instantly.Calls("Remove") + fx.instantly.Calls("Account"); n != calls || len(fx.instantly.AllAccounts()) != 1 {
		t.Error("the platform was called")
	}
	fx.connect(t, second, fx.anna)
	_, _, err = fx.Get(t.Context(), fx.acc.ID, id)
	refused(t, err, fault.IntegrationNotFound)
}

func TestGetCountsWhatIsStored(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.begin(t, id, fx.ben)
	asked := fx.instantly.Calls("Account") + fx.instantly.Calls("Accounts") + fx.instantly.Calls("Check")
	v, counts, err := fx.Get(t.Context(), fx.acc.ID, id)
	must(t, err)
	if want := (integration.Counts{Total: 2, Connected: 1, Pending: 1}); counts != want || v.ID != id || !v.Capabilities.MailboxRefresh {
		t.Errorf("%+v of %+v", counts, v)
	}
	if n := fx.instantly.Calls("Account") + fx.instantly.Calls("Accounts") + fx.instantly.Calls("Check"); n != asked {
		t.Error("the platform was called")
	}
	all, err := fx.Mailboxes(t.Context(), fx.acc.ID, id)
	if err != nil || len(all) != 2 || all[0].Connection.Status != integration.ConnectionConnected {
		t.Errorf("%+v, %v", all, err)
	}
}
