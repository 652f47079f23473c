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
	w := newFixture(t)
	v, err := w.Create(t.Context(), integrations.New{Account: w.acc.ID, Provider: "instantly", Name: "Main", APIKey: secret.New(`{"api_key":"key","partner":"s3cret"}`)}, nil)
	must(t, err)
	want := integrations.View{
		Integration: integration.Integration{
			ID: v.ID, AccountID: w.acc.ID, Provider: "instantly", Name: "Main", Workspace: integration.Workspace{ID: "ws-1", Name: "Workspace 1"},
			Status: integration.Connected, CredentialFields: []string{"api_key", "partner"}, LastTestedAt: w.clock, CreatedAt: w.clock, UpdatedAt: w.clock,
		},
		Capabilities: integration.Capabilities{OAuth: true, MailboxRefresh: true, MailboxDisconnect: true},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	all, err := w.List(t.Context(), w.acc.ID)
	must(t, err)
	if diff := cmp.Diff([]integrations.View{want}, all); diff != "" {
		t.Error(diff)
	}
	if others, err := w.List(t.Context(), w.bob.ID); err != nil || len(others) > 0 {
		t.Errorf("a different account sees %v, %v", others, err)
	}
	_, sealed, err := w.store.Integration(t.Context(), w.acc.ID, v.ID)
	must(t, err)
	for _, part := range []string{"s3cret", "partner", "api_key"} {
		if strings.Contains(string(sealed), part) {
			t.Errorf("%q can be read", part)
		}
	}
	if n := w.instantly.Calls("Check"); n != 1 {
		t.Errorf("tested %d times", n)
	}
}

func TestRejectedCredentialIsNotStored(t *testing.T) {
	w := newFixture(t)
	w.platforms.Hold("instantly", "down", "", fake.AbsentSending())
	absurd, unpaid, stuck := fake.NewSendingPlatform(), fake.NewSendingPlatform(), fake.NewSendingPlatform()
	absurd.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.InvalidRequest})
	unpaid.Unpaid(true)
	stuck.Fail(fake.Fault{Kind: outcome.Unknown})
	empty := fake.NewSendingPlatform()
	empty.Reach.Workspaces = nil
	w.platforms.Hold("instantly", "absurd", "", absurd)
	w.platforms.Hold("instantly", "unpaid", "", unpaid)
	w.platforms.Hold("instantly", "stuck", "", stuck)
	w.platforms.Hold("instantly", "empty", "", empty)
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
		_, err := w.Create(t.Context(), integrations.New{Account: w.acc.ID, Provider: tt.provider, Name: "x", APIKey: secret.New(tt.key)}, nil)
		f := refused(t, err, tt.want)
		if tt.key == "absurd" && (len(f.Fields) != 1 || f.Fields[0].Name != "api_key") {
			t.Errorf("the error names %v", f.Fields)
		}
		if tt.key == "unpaid" && !strings.Contains(f.Detail, "plan") {
			t.Errorf("a plan that ended is called %q", f.Detail)
		}
	}
	if all, err := w.List(t.Context(), w.acc.ID); err != nil || len(all) > 0 {
		t.Fatalf("stored %v, %v", all, err)
	}
}

// TestWorkspaceIsChosen checks that a key for several workspaces is stored with the workspace that
// the caller names, and that later calls use this workspace.
func TestWorkspaceIsChosen(t *testing.T) {
	w := newFixture(t)
	reach := integration.Reach{Workspaces: []integration.Workspace{{ID: "a", Name: "A"}, {ID: "b", Name: "B"}}}
	at := map[string]*fake.SendingPlatform{}
	for _, workspace := range []string{"", "a", "b", "c"} {
		at[workspace] = fake.NewSendingPlatform()
		at[workspace].Reach = reach
		w.platforms.Hold("plusvibe", "many", workspace, at[workspace])
	}
	create := func(workspace string) (integrations.View, error) {
		return w.Create(t.Context(), integrations.New{Account: w.acc.ID, Provider: "plusvibe", Name: "x", APIKey: secret.New("many"), WorkspaceID: workspace}, nil)
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
	w.refresh(t, v.ID)
	if at["b"].Calls("Accounts") != 1 || at[""].Calls("Accounts") != 0 {
		t.Error("the refresh went to another workspace")
	}
}

func TestTestStoresHowItEnded(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.wait(time.Hour)
	lift := w.instantly.Fail(fake.Fault{Method: "Check", Kind: outcome.Refused, Code: fault.AccessDenied})
	got, err := w.Test(t.Context(), w.acc.ID, id, nil)
	must(t, err)
	stored := w.integration(t, id)
	if got.Status != integration.Failed || got.Message == "" || stored.Status != integration.Failed || !stored.HasError || stored.LastTestedAt != w.clock {
		t.Errorf("%+v, stored %+v", got, stored)
	}
	lift()
	w.instantly.Reach.Workspaces[0].Name = "Renamed"
	got, err = w.Test(t.Context(), w.acc.ID, id, nil)
	must(t, err)
	stored = w.integration(t, id)
	if got.Status != integration.Connected || stored.HasError || stored.Status != integration.Connected || stored.Workspace.Name != "Renamed" {
		t.Errorf("%+v, stored %+v", got, stored)
	}
	w.instantly.Reach.Workspaces[0].ID = "another"
	if got, err = w.Test(t.Context(), w.acc.ID, id, nil); err != nil || got.Status != integration.Failed {
		t.Errorf("a deleted workspace: %+v, %v", got, err)
	}
	w.instantly.Fail(fake.Fault{Kind: outcome.Down})
	before := w.integration(t, id)
	w.wait(time.Hour)
	_, err = w.Test(t.Context(), w.acc.ID, id, nil)
	refused(t, err, fault.ProviderUnavailable)
	if diff := cmp.Diff(before, w.integration(t, id)); diff != "" {
		t.Errorf("a platform that cannot be asked changed the integration: %s", diff)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Test(given, w.acc.ID, id, nil); err == nil {
		t.Error("a cancelled test has an answer")
	}
	_, err = w.Test(t.Context(), w.bob.ID, id, nil)
	refused(t, err, fault.IntegrationNotFound)
}

// TestACredentialIsOfItsIntegrationAccountAndProvider checks that a sealed credential opens only in
// the row that it was sealed for.
func TestACredentialIsOfItsIntegrationAccountAndProvider(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	i, sealed, err := w.store.Integration(t.Context(), w.acc.ID, id)
	must(t, err)
	other := i
	other.ID, other.AccountID = "019aa000-0000-7000-8000-000000000001", w.bob.ID
	same := i
	same.ID = "019aa000-0000-7000-8000-000000000002"
	moved := i
	moved.Provider = "plusvibe"
	must(t, w.store.RemoveIntegration(t.Context(), w.acc.ID, id, nil))
	for _, i := range []integration.Integration{other, same, moved} {
		must(t, w.store.AddIntegration(t.Context(), i, sealed, nil))
		var unreadable integrations.Unreadable
		if _, err := w.Test(t.Context(), i.AccountID, i.ID, nil); !errors.As(err, &unreadable) || fault.Of(err).Code != fault.InternalError {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

// TestDeleteFreesMailboxes checks that other integrations can connect the mailboxes after Delete,
// and that Delete does not call the platform.
func TestDeleteFreesMailboxes(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	w.connect(t, id, w.anna)
	calls := w.instantly.Calls("Remove") + w.instantly.Calls("Account")
	_, err := w.Delete(t.Context(), w.bob.ID, id, nil)
	refused(t, err, fault.IntegrationNotFound)
	gone, err := w.Delete(t.Context(), w.acc.ID, id, nil)
	if err != nil || gone.ID != id {
		t.Fatalf("%+v, %v", gone, err)
	}
	if n := w.instantly.Calls("Remove") + w.instantly.Calls("Account"); n != calls || len(w.instantly.Held()) != 1 {
		t.Error("the platform was called")
	}
	w.connect(t, second, w.anna)
	_, _, err = w.Get(t.Context(), w.acc.ID, id)
	refused(t, err, fault.IntegrationNotFound)
}

func TestGetCountsWhatIsStored(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	w.begin(t, id, w.ben)
	asked := w.instantly.Calls("Account") + w.instantly.Calls("Accounts") + w.instantly.Calls("Check")
	v, counts, err := w.Get(t.Context(), w.acc.ID, id)
	must(t, err)
	if want := (integration.Counts{Total: 2, Connected: 1, Pending: 1}); counts != want || v.ID != id || !v.Capabilities.MailboxRefresh {
		t.Errorf("%+v of %+v", counts, v)
	}
	if n := w.instantly.Calls("Account") + w.instantly.Calls("Accounts") + w.instantly.Calls("Check"); n != asked {
		t.Error("the platform was called")
	}
	all, err := w.Mailboxes(t.Context(), w.acc.ID, id)
	if err != nil || len(all) != 2 || all[0].Connection.Status != integration.ConnectionConnected {
		t.Errorf("%+v, %v", all, err)
	}
}
