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
	"github.com/tenantry/tenantry/ports"
)

func TestCreateTestsAndStoresTheCredential(t *testing.T) {
	fx := newFixture(t)
	created, err := fx.Create(t.Context(), integrations.NewIntegration{Account: fx.ann.ID, Provider: "instantly", Name: "Main", APIKey: secret.New(`{"api_key":"key","partner":"s3cret"}`)}, nil)
	must(t, err)
	want := integrations.View{
		Integration: integration.Integration{
			ID: created.ID, AccountID: fx.ann.ID, Provider: "instantly", Name: "Main", Workspace: integration.Workspace{ID: "ws-1", Name: "Workspace 1"},
			Status: integration.Connected, CredentialFields: []string{"api_key", "partner"}, LastTestedAt: fx.clock, CreatedAt: fx.clock, UpdatedAt: fx.clock,
		},
		Capabilities: integration.Capabilities{OAuth: true, MailboxRefresh: true, MailboxDisconnect: true},
	}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("Create returned the wrong integration (-want +got):\n%s", diff)
	}
	views, err := fx.List(t.Context(), fx.ann.ID)
	must(t, err)
	if diff := cmp.Diff([]integrations.View{want}, views); diff != "" {
		t.Errorf("List returned the wrong integrations (-want +got):\n%s", diff)
	}
	if viewsOfBob, err := fx.List(t.Context(), fx.bob.ID); err != nil || len(viewsOfBob) > 0 {
		t.Errorf("the account bob sees the integrations %v, %v, want none", viewsOfBob, err)
	}
	_, sealedCredential, err := fx.store.Integration(t.Context(), fx.ann.ID, created.ID)
	must(t, err)
	for _, part := range []string{"s3cret", "partner", "api_key"} {
		if strings.Contains(string(sealedCredential), part) {
			t.Errorf("the sealed credential contains %q as plain text", part)
		}
	}
	if n := fx.instantly.Calls("Check"); n != 1 {
		t.Errorf("the credential was tested %d times, want 1", n)
	}
}

// TestRefusedWorkspaceIsNamed checks requests whose workspace the platform refuses. The error names
// the member workspace_id, or api_key if the request has no workspace_id.
func TestRefusedWorkspaceIsNamed(t *testing.T) {
	fx := newFixture(t)
	for _, workspace := range []string{"", "99"} {
		fx.platforms.AddWorkspace("instantly", "agency", workspace, refusedWorkspace{fx.instantly})
	}
	for _, tc := range []struct {
		workspace string
		wantField fault.Field
	}{
		{"99", fault.Field{Name: "workspace_id", Message: "no such client"}},
		{"", fault.Field{Name: "api_key", Message: "workspace_id: no such client"}},
	} {
		_, err := fx.Create(t.Context(), integrations.NewIntegration{Account: fx.ann.ID, Provider: "instantly", Name: "a", APIKey: secret.New("agency"), WorkspaceID: tc.workspace}, nil)
		if refusal := requireRefusal(t, err, fault.InvalidRequest); !slices.Equal(refusal.Fields, []fault.Field{tc.wantField}) {
			t.Errorf("workspace %q: the error names %v, want %v", tc.workspace, refusal.Fields, tc.wantField)
		}
	}
}

// refusedWorkspace is a platform that refuses the workspace of the credential.
type refusedWorkspace struct{ ports.SendingPlatform }

func (refusedWorkspace) Check(context.Context) (integration.Reach, error) {
	return integration.Reach{}, &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "not_served", Detail: "workspace_id: no such client"}
}

func TestRejectedCredentialIsNotStored(t *testing.T) {
	fx := newFixture(t)
	fx.platforms.AddWorkspace("instantly", "down", "", fake.UnreachableSendingPlatform())
	invalid, unpaid, silent := fake.NewSendingPlatform(), fake.NewSendingPlatform(), fake.NewSendingPlatform()
	invalid.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.InvalidRequest})
	unpaid.SetPlanEnded(true)
	silent.Fail(fake.Fault{Kind: outcome.Unknown})
	empty := fake.NewSendingPlatform()
	empty.Reach.Workspaces = nil
	fx.platforms.AddWorkspace("instantly", "invalid-setting", "", invalid)
	fx.platforms.AddWorkspace("instantly", "unpaid", "", unpaid)
	fx.platforms.AddWorkspace("instantly", "silent", "", silent)
	fx.platforms.AddWorkspace("instantly", "empty", "", empty)
	for _, tc := range []struct {
		provider, key string
		want          fault.Code
	}{
		{"instantly", "s3cret", fault.CredentialRejected},
		{"instantly", "unpaid", fault.CredentialRejected},
		{"instantly", "empty", fault.CredentialRejected},
		{"instantly", "down", fault.ProviderUnavailable},
		{"instantly", "silent", fault.ProviderTimeout},
		{"instantly", "invalid-setting", fault.InvalidRequest},
		{"instantly", "{s3cret", fault.InvalidRequest},
		{"lemlist", "s3cret", fault.UnknownProvider},
	} {
		_, err := fx.Create(t.Context(), integrations.NewIntegration{Account: fx.ann.ID, Provider: tc.provider, Name: "x", APIKey: secret.New(tc.key)}, nil)
		refusal := requireRefusal(t, err, tc.want)
		if tc.key == "invalid-setting" && (len(refusal.Fields) != 1 || refusal.Fields[0].Name != "api_key") {
			t.Errorf("the error names the fields %v, want api_key", refusal.Fields)
		}
		if tc.key == "unpaid" && !strings.Contains(refusal.Detail, "plan") {
			t.Errorf("the detail of the error is %q, want it to name the plan", refusal.Detail)
		}
	}
	if views, err := fx.List(t.Context(), fx.ann.ID); err != nil || len(views) > 0 {
		t.Fatalf("the stored integrations are %v, %v, want none", views, err)
	}
}

// TestWorkspaceIsChosen checks that a key for several workspaces is stored with the workspace that
// the caller names, and that later calls use this workspace.
func TestWorkspaceIsChosen(t *testing.T) {
	fx := newFixture(t)
	reach := integration.Reach{Workspaces: []integration.Workspace{{ID: "a", Name: "A"}, {ID: "b", Name: "B"}}}
	platforms := map[string]*fake.SendingPlatform{} // by workspace
	for _, workspace := range []string{"", "a", "b", "c"} {
		platforms[workspace] = fake.NewSendingPlatform()
		platforms[workspace].Reach = reach
		fx.platforms.AddWorkspace("plusvibe", "many", workspace, platforms[workspace])
	}
	create := func(workspace string) (integrations.View, error) {
		return fx.Create(t.Context(), integrations.NewIntegration{Account: fx.ann.ID, Provider: "plusvibe", Name: "x", APIKey: secret.New("many"), WorkspaceID: workspace}, nil)
	}
	for _, requested := range []string{"", "c"} {
		_, err := create(requested)
		refusal := requireRefusal(t, err, fault.PlusVibeWorkspace)
		if diff := cmp.Diff(reach.Workspaces, refusal.Values); diff != "" {
			t.Errorf("with the workspace %q the error names the wrong workspaces (-want +got):\n%s", requested, diff)
		}
	}
	created, err := create("b")
	must(t, err)
	if created.Workspace.Name != "B" || slices.Contains(created.CredentialFields, "workspace_id") {
		t.Errorf("got %+v, want the workspace B and no workspace_id in the credential", created.Integration)
	}
	fx.refresh(t, created.ID)
	if platforms["b"].Calls("Accounts") != 1 || platforms[""].Calls("Accounts") != 0 {
		t.Error("the refresh did not use the workspace b")
	}
}

func TestTestStoresItsResult(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.advance(time.Hour)
	endFault := fx.instantly.Fail(fake.Fault{Method: "Check", Kind: outcome.Refused, Code: fault.AccessDenied})
	got, err := fx.Test(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	stored := fx.storedIntegration(t, id)
	if got.Status != integration.Failed || got.Message == "" || stored.Status != integration.Failed || !stored.HasError || stored.LastTestedAt != fx.clock {
		t.Errorf("the test returned %+v, stored is %+v, want it failed", got, stored)
	}
	endFault()
	fx.instantly.Reach.Workspaces[0].Name = "Renamed"
	got, err = fx.Test(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	stored = fx.storedIntegration(t, id)
	if got.Status != integration.Connected || stored.HasError || stored.Status != integration.Connected || stored.Workspace.Name != "Renamed" {
		t.Errorf("the test returned %+v, stored is %+v, want it connected", got, stored)
	}
	fx.instantly.Reach.Workspaces[0].ID = "ws-2"
	if got, err = fx.Test(t.Context(), fx.ann.ID, id, nil); err != nil || got.Status != integration.Failed {
		t.Errorf("the test of a deleted workspace returned %+v, %v, want it failed", got, err)
	}
	fx.instantly.Fail(fake.Fault{Kind: outcome.Down})
	storedBefore := fx.storedIntegration(t, id)
	fx.advance(time.Hour)
	_, err = fx.Test(t.Context(), fx.ann.ID, id, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	if diff := cmp.Diff(storedBefore, fx.storedIntegration(t, id)); diff != "" {
		t.Errorf("a platform that is down changed the integration (-before +after):\n%s", diff)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fx.Test(cancelled, fx.ann.ID, id, nil); err == nil {
		t.Error("a cancelled test returned no error")
	}
	_, err = fx.Test(t.Context(), fx.bob.ID, id, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
}

// TestTestOfAnEndedPlanKeepsTheStatus checks that the test of a valid credential whose plan has
// ended reports a failure, and stores an error of the integration but no rejected credential.
func TestTestOfAnEndedPlanKeepsTheStatus(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.advance(time.Hour)
	fx.instantly.SetPlanEnded(true)
	got, err := fx.Test(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	stored := fx.storedIntegration(t, id)
	if got.Status != integration.Failed || !got.HasError || !strings.Contains(got.Message, "plan") {
		t.Errorf("the test returned %+v, want it failed because of the plan", got)
	}
	if stored.Status != integration.Connected || !stored.HasError || stored.LastTestedAt != fx.clock {
		t.Errorf("stored is %+v, want it connected, with an error", stored)
	}
}

// TestTestStoresTheWorkspaceThatThePlatformNamesLater checks an integration for which the platform
// names no workspace at first. Once a test has stored a workspace, a test without one keeps it.
func TestTestStoresTheWorkspaceThatThePlatformNamesLater(t *testing.T) {
	fx := newFixture(t)
	workspaces := fx.instantly.Reach.Workspaces
	fx.instantly.Reach.Workspaces = []integration.Workspace{{}}
	id := fx.createIntegration(t, "instantly")
	for _, reported := range [][]integration.Workspace{{{}}, workspaces, {{}}} {
		fx.advance(time.Second)
		fx.instantly.Reach.Workspaces = reported
		got, err := fx.Test(t.Context(), fx.ann.ID, id, nil)
		must(t, err)
		if stored := fx.storedIntegration(t, id); got.Status != integration.Connected || stored.Workspace != got.Workspace {
			t.Errorf("the platform reports %+v: the test returned %+v, stored is %+v, want the same workspace in both", reported, got, stored)
		}
	}
	if stored := fx.storedIntegration(t, id); stored.Workspace != workspaces[0] {
		t.Errorf("the stored workspace is %+v, want %+v", stored.Workspace, workspaces[0])
	}
}

// TestTestRejectsACredentialOfTheSelectedWorkspace checks a credential that works in the workspace
// that is selected at the platform. Such a credential fails the test as soon as it has access to a
// second workspace, as it does in Create.
func TestTestRejectsACredentialOfTheSelectedWorkspace(t *testing.T) {
	fx := newFixture(t)
	fx.instantly.Reach.SelectedWorkspaceOnly = true
	id := fx.createIntegration(t, "instantly")
	if got, err := fx.Test(t.Context(), fx.ann.ID, id, nil); err != nil || got.Status != integration.Connected {
		t.Fatalf("with one workspace: got %+v, %v, want it connected", got, err)
	}
	fx.instantly.Reach.Workspaces = append(fx.instantly.Reach.Workspaces, integration.Workspace{ID: "second", Name: "Second"})
	fx.advance(time.Second)
	got, err := fx.Test(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	if stored := fx.storedIntegration(t, id); got.Status != integration.Failed || stored.Status != integration.Failed {
		t.Errorf("with two workspaces: got %+v, stored is %+v, want it failed", got, stored)
	}
}

// TestCredentialOpensOnlyForItsIntegration checks that a sealed credential cannot be decrypted in
// the row of a different account, id or provider.
func TestCredentialOpensOnlyForItsIntegration(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	i, sealedCredential, err := fx.store.Integration(t.Context(), fx.ann.ID, id)
	must(t, err)
	inOtherAccount := i
	inOtherAccount.ID, inOtherAccount.AccountID = "019aa000-0000-7000-8000-000000000001", fx.bob.ID
	inSameAccount := i
	inSameAccount.ID = "019aa000-0000-7000-8000-000000000002"
	ofOtherProvider := i
	ofOtherProvider.Provider = "plusvibe"
	must(t, fx.store.RemoveIntegration(t.Context(), fx.ann.ID, id, nil))
	for _, copied := range []integration.Integration{inOtherAccount, inSameAccount, ofOtherProvider} {
		must(t, fx.store.AddIntegration(t.Context(), copied, sealedCredential, nil))
		var unreadable integrations.UnreadableError
		if _, err := fx.Test(t.Context(), copied.AccountID, copied.ID, nil); !errors.As(err, &unreadable) || fault.ErrorOf(err).Code != fault.InternalError {
			t.Errorf("a test of %+v: got the error %v, want an UnreadableError", copied, err)
		}
	}
}

// TestDeleteLetsOtherIntegrationsConnect checks that other integrations can connect the mailboxes
// after Delete, and that Delete does not call the platform.
func TestDeleteLetsOtherIntegrationsConnect(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	callsBefore := fx.instantly.Calls("Remove") + fx.instantly.Calls("Account")
	_, err := fx.Delete(t.Context(), fx.bob.ID, instantlyID, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
	deleted, err := fx.Delete(t.Context(), fx.ann.ID, instantlyID, nil)
	if err != nil || deleted.ID != instantlyID {
		t.Fatalf("Delete returned %+v, %v, want the integration", deleted, err)
	}
	if n := fx.instantly.Calls("Remove") + fx.instantly.Calls("Account"); n != callsBefore || len(fx.instantly.AllAccounts()) != 1 {
		t.Error("Delete called the platform or removed the account")
	}
	fx.connect(t, plusvibeID, fx.anna)
	_, _, err = fx.Get(t.Context(), fx.ann.ID, instantlyID)
	requireRefusal(t, err, fault.IntegrationNotFound)
}

func TestGetCountsStoredConnections(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.beginSession(t, id, fx.ben)
	callsBefore := fx.instantly.Calls("Account") + fx.instantly.Calls("Accounts") + fx.instantly.Calls("Check")
	view, counts, err := fx.Get(t.Context(), fx.ann.ID, id)
	must(t, err)
	if wantCounts := (integration.Counts{Total: 2, Connected: 1, Pending: 1}); counts != wantCounts || view.ID != id || !view.Capabilities.MailboxRefresh {
		t.Errorf("got the counts %+v of %+v, want %+v and the capability to refresh", counts, view, wantCounts)
	}
	if n := fx.instantly.Calls("Account") + fx.instantly.Calls("Accounts") + fx.instantly.Calls("Check"); n != callsBefore {
		t.Error("Get called the platform")
	}
	mailboxes, err := fx.Mailboxes(t.Context(), fx.ann.ID, id)
	if err != nil || len(mailboxes) != 2 || mailboxes[0].Connection.Status != integration.ConnectionConnected {
		t.Errorf("the mailboxes are %+v, %v, want 2 with the first one connected", mailboxes, err)
	}
}
