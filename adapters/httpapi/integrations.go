// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

type integrationPath struct {
	IntegrationID string `path:"integration_id"`
}

type createIntegrationInput struct {
	Body createIntegration
}

// createIntegration is the body of create-integration. The provider's plugin checks the format of
// the credential.
type createIntegration struct {
	Provider    string `json:"provider" doc:"The sending platform's id. GET /v1/me lists the sending platforms."`
	Name        string `json:"name" doc:"A label of your choice, 1 to 256 characters."`
	APIKey      string `json:"api_key" minLength:"1" maxLength:"4096" writeOnly:"true" doc:"The platform's credential, in the form that the guide about sending platforms describes. It is tested, stored encrypted and never shown."`
	WorkspaceID string `json:"workspace_id,omitempty" maxLength:"256" doc:"The workspace at the platform, if the credential has access to several."`
}

func (b createIntegration) newIntegration(owner access.AccountID) (integrations.NewIntegration, error) {
	name, err := mailbox.DisplayName(norm.NFC.String(b.Name), "name")
	return integrations.NewIntegration{Account: owner, Provider: b.Provider, Name: name, APIKey: secret.New(b.APIKey), WorkspaceID: b.WorkspaceID}, err
}

func registerIntegrationOperations(api huma.API, service *integrations.Service) {
	registerCreateIntegration(api, service)
	registerListIntegrations(api, service)
	registerGetIntegration(api, service)
	registerTestIntegration(api, service)
	registerDeleteIntegration(api, service)
	registerListEligibleMailboxes(api, service)
	registerBeginSignIn(api, service)
	registerGetSignIn(api, service)
	registerRefreshMailboxes(api, service)
	registerDisconnectMailbox(api, service)
}

func registerCreateIntegration(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "create-integration", Method: http.MethodPost, Path: "/v1/integrations", Tags: []string{tagIntegrations},
		Summary: "Add an integration",
		Description: "Tests the credential at the sending platform, then stores it. It is never shown again. If it has access to " +
			"several workspaces and the request names none, the error lists them: send the request again with `workspace_id` and a new " +
			"Idempotency-Key.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, Creates: event.Integration, RequestExample: exampleCreateIntegration, AnswerExample: exampleIntegration,
			Refuses: codes(sendingCodes, specificCodes(fault.CredentialRejected, fault.UnknownProvider, fault.PlusVibeWorkspace, fault.SalesBlinkWorkspace,
				fault.EmailBisonWorkspace))}.Metadata(),
	}, integrationOf, func(ctx context.Context, caller access.Caller, in *createIntegrationInput, encoder ports.AnswerEncoder[integrations.View]) (integrations.View, error) {
		requested, err := in.Body.newIntegration(caller.Account.ID)
		if err != nil {
			return integrations.View{}, err
		}
		return service.Create(ctx, requested, encoder)
	})
}

func registerListIntegrations(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "list-integrations", Method: http.MethodGet, Path: "/v1/integrations", Tags: []string{tagIntegrations},
		Summary:     "List integrations",
		Description: "Lists the account's integrations with sending platforms, newest first.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.IntegrationsRead, AnswerExample: exampleIntegrationList}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, _ *struct{}) (integrationList, error) {
		integrations, err := service.List(ctx, caller.Account.ID)
		if err != nil {
			return integrationList{}, err
		}
		list := convertAll(integrations, integrationOf)
		return integrationList{Integrations: list, Count: len(list)}, nil
	})
}

func registerGetIntegration(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "get-integration", Method: http.MethodGet, Path: "/v1/integrations/{integration_id}", Tags: []string{tagIntegrations},
		Summary:     "Get an integration",
		Description: "Returns a stored integration with the number of its mailbox connections. The platform is not called.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.IntegrationsRead, AnswerExample: exampleIntegrationDetail, Refuses: specificCodes(fault.IntegrationNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *integrationPath) (integrationDetail, error) {
		i, counts, err := service.Get(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID))
		if err != nil {
			return integrationDetail{}, err
		}
		return integrationDetail{IntegrationEntry: integrationOf(i), MailboxConnections: countsOf(counts)}, nil
	})
}

func registerTestIntegration(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "test-integration", Method: http.MethodPost, Path: "/v1/integrations/{integration_id}/test", Tags: []string{tagIntegrations},
		Summary: "Test an integration",
		Description: "Asks the platform whether it accepts the credential. If the platform rejects it, the response is 200 with `status` `failed`, and " +
			"`has_error` of the integration is true until a test or a refresh succeeds.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, AnswerExample: exampleTestedIntegration,
			Refuses: codes(sendingCodes, specificCodes(fault.IntegrationNotFound))}.Metadata(),
	}, testedIntegrationOf, func(ctx context.Context, caller access.Caller, in *integrationPath, encoder ports.AnswerEncoder[integrations.TestResult]) (integrations.TestResult, error) {
		return service.Test(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID), encoder)
	})
}

func registerDeleteIntegration(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "delete-integration", Method: http.MethodDelete, Path: "/v1/integrations/{integration_id}", Tags: []string{tagIntegrations},
		Summary: "Delete an integration",
		Description: "Removes the stored credential with the integration's connections and sessions, so that its mailboxes can be connected " +
			"elsewhere. The platform is not called: accounts that are connected there stay connected until they are removed at the platform.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, AnswerExample: exampleDeletedIntegration, Refuses: specificCodes(fault.IntegrationNotFound)}.Metadata(),
	}, deletedIntegrationOf, func(ctx context.Context, caller access.Caller, in *integrationPath, encoder ports.AnswerEncoder[integration.Integration]) (integration.Integration, error) {
		return service.Delete(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID), encoder)
	})
}

type integrationList struct {
	Integrations []IntegrationEntry `json:"integrations" doc:"The integrations of the account, newest first."`
	Count        int                `json:"count" doc:"The number of entries in the response."`
}

// IntegrationEntry is exported because huma documents only exported embedded types.
type IntegrationEntry struct {
	ID                    string               `json:"id" format:"uuid" doc:"The integration's id; used in paths."`
	Provider              string               `json:"provider" doc:"The sending platform's id. GET /v1/me lists the sending platforms."`
	Name                  string               `json:"name" doc:"The label that you chose."`
	ProviderWorkspaceID   *string              `json:"provider_workspace_id" doc:"The workspace at the platform, null if there is none or it is not known yet."`
	ProviderWorkspaceName *string              `json:"provider_workspace_name" doc:"The workspace's name, null if it has none."`
	Status                string               `json:"status" enum:"connected,failed" doc:"failed: the platform no longer accepts the credential."`
	LastTestedAt          time.Time            `json:"last_tested_at" doc:"When the credential was last tested."`
	HasError              bool                 `json:"has_error" doc:"Whether the last test or refresh failed, or the platform has rejected the credential since then."`
	CreatedAt             time.Time            `json:"created_at" doc:"When it was added."`
	UpdatedAt             time.Time            `json:"updated_at" doc:"When it last changed."`
	Capabilities          platformCapabilities `json:"capabilities" doc:"What this integration can do. This depends on the platform, the credential and the operator's settings."`
}

type platformCapabilities struct {
	MicrosoftOAuth    bool `json:"microsoft_oauth" doc:"Whether mailboxes can be signed in by a link."`
	MailboxRefresh    bool `json:"mailbox_refresh" doc:"Whether the list of connected mailboxes can be read from the platform."`
	MailboxDisconnect bool `json:"mailbox_disconnect" doc:"Whether a mailbox can be removed from the platform."`
}

type integrationDetail struct {
	IntegrationEntry

	MailboxConnections connectionCounts `json:"mailbox_connections" doc:"The stored connections of its mailboxes. The platform is not called."`
}

type connectionCounts struct {
	Total        int  `json:"total" doc:"Mailboxes that have or had a connection through this integration: the sum of the other counts."`
	Connected    int  `json:"connected" doc:"Mailboxes with which the platform can send."`
	Pending      int  `json:"pending" doc:"Mailboxes with a sign-in in progress, or whose account the platform is still setting up."`
	Failed       int  `json:"failed" doc:"Mailboxes to which the platform cannot sign in, or whose last sign-in failed."`
	Disconnected int  `json:"disconnected" doc:"Mailboxes that are no longer at the platform."`
	Other        int  `json:"other" doc:"Mailboxes whose disconnect has an unknown outcome, or for which the platform reports an unknown state."`
	HasErrors    bool `json:"has_errors" doc:"Whether at least one connection has an error."`
}

type testedIntegration struct {
	Status        string    `json:"status" enum:"connected,failed" doc:"failed: the platform rejects the credential, or the plan of the credential has ended."`
	IntegrationID string    `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider      string    `json:"provider" doc:"Its platform."`
	Message       string    `json:"message" doc:"The result as a sentence, with what to do."`
	TestedAt      time.Time `json:"tested_at" doc:"When it was tested."`
}

type eligibleList struct {
	IntegrationID string            `json:"integration_id" format:"uuid" doc:"The integration."`
	Mailboxes     []eligibleMailbox `json:"mailboxes" doc:"All mailboxes that this service created in tenants of the account, sorted by address."`
	Count         int               `json:"count" doc:"The number of entries in the response."`
}

type eligibleMailbox struct {
	MailboxID      string                      `json:"mailbox_id" format:"uuid" doc:"The mailbox's id; used in paths."`
	TenantID       string                      `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	TenantName     string                      `json:"tenant_name" doc:"The tenant's name."`
	DomainName     string                      `json:"domain_name" doc:"The mailbox's domain."`
	DisplayName    string                      `json:"display_name" doc:"The mailbox's display name."`
	PrimarySMTP    string                      `json:"primary_smtp" doc:"The mailbox's address."`
	AccountEnabled bool                        `json:"account_enabled" doc:"Whether the mailbox's user account is enabled for sign-in."`
	Managed        bool                        `json:"managed_by_tenantcore" doc:"Always true: only mailboxes that this service created are listed."`
	Connection     nullable[mailboxConnection] `json:"connection" doc:"The mailbox's connection through this integration, null if it never had one."`
}

type mailboxConnection struct {
	ID                   string     `json:"id" format:"uuid" doc:"The connection's id."`
	Status               string     `json:"status" enum:"pending,connected,failed,disconnected,disconnecting,other" doc:"disconnecting: the outcome of a disconnect is unknown; a refresh resolves it. other: the platform reports an unknown state."`
	ProviderAccountID    *string    `json:"provider_account_id" doc:"The platform's id of the mail account, null until known."`
	ProviderAccountEmail *string    `json:"provider_account_email" doc:"The mail account's address at the platform, null until known."`
	HasError             bool       `json:"has_error" doc:"Whether the platform reports a problem with the account. The account can be connected nevertheless."`
	ConnectedAt          *time.Time `json:"connected_at" doc:"When the mailbox was last connected, null if never."`
	UpdatedAt            time.Time  `json:"updated_at" doc:"When it last changed."`
}

type begunSession struct {
	Status        string    `json:"status" enum:"pending" doc:"Always pending."`
	IntegrationID string    `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider      string    `json:"provider" doc:"Its platform."`
	MailboxID     string    `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	Mailbox       string    `json:"mailbox" doc:"The mailbox's address. Sign in with exactly this address."`
	SessionID     string    `json:"session_id" format:"uuid" doc:"The session's id; a query parameter of the request for its status."`
	AuthURL       string    `json:"auth_url" format:"uri" doc:"The link to the sign-in page. Open it in a browser. Do not parse or construct it. Anyone who has the link can use it."`
	ExpiresAt     time.Time `json:"expires_at" doc:"When the link expires."`
}

type sessionState struct {
	Status              string     `json:"status" enum:"pending,connected,failed,expired" doc:"connected and failed are final. expired can still become connected, if a concurrent request finds the sign-in. failed: for example, the sign-in was declined, or a different account than the mailbox's signed in."`
	IntegrationID       string     `json:"integration_id" format:"uuid" doc:"The integration."`
	MailboxID           string     `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	SessionID           string     `json:"session_id" format:"uuid" doc:"The session."`
	ProviderAccountID   *string    `json:"provider_account_id" doc:"The platform's id of the mail account, null until known."`
	ProviderAccountName *string    `json:"provider_account_name" doc:"The mail account's name at the platform, null until known."`
	ConnectedAt         *time.Time `json:"connected_at" doc:"When it was connected, null until then."`
	ExpiresAt           time.Time  `json:"expires_at" doc:"When the link expires."`
}

type refreshedMailboxes struct {
	IntegrationID  string `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider       string `json:"provider" doc:"Its platform."`
	Checked        int    `json:"checked" doc:"The number of mailboxes that this service created in tenants of the account, including those of error_count."`
	Connected      int    `json:"connected" doc:"The number of these mailboxes that are connected now. For a mailbox of error_count, the stored state counts."`
	NewlyConnected int    `json:"newly_connected" doc:"The number of connected mailboxes that were not connected before."`
	Unchanged      int    `json:"unchanged" doc:"The number of mailboxes that were read and whose state did not change."`
	ErrorCount     int    `json:"error_count" doc:"The number of mailboxes that could not be read."`
	Status         string `json:"status" enum:"completed,partial" doc:"partial: the mailboxes of error_count could not be read, and their connections were not changed. If the list could not be read completely, no connection was changed."`
}

type disconnectedMailbox struct {
	Status        string `json:"status" enum:"disconnected" doc:"Always disconnected."`
	IntegrationID string `json:"integration_id" format:"uuid" doc:"The integration."`
	MailboxID     string `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	Message       string `json:"message" doc:"What was done."`
}

type deletedIntegration struct {
	Status        string `json:"status" enum:"deleted" doc:"Always deleted."`
	IntegrationID string `json:"integration_id" format:"uuid" doc:"The integration."`
	Message       string `json:"message" doc:"What was removed, and what was not changed."`
}

func capabilitiesOf(c integration.Capabilities) platformCapabilities {
	return platformCapabilities{MicrosoftOAuth: c.OAuth, MailboxRefresh: c.MailboxRefresh, MailboxDisconnect: c.MailboxDisconnect}
}

func countsOf(c integration.Counts) connectionCounts {
	return connectionCounts{Total: c.Total, Connected: c.Connected, Pending: c.Pending, Failed: c.Failed, Disconnected: c.Disconnected,
		Other: c.Other, HasErrors: c.HasErrors}
}

func integrationOf(v integrations.View) IntegrationEntry {
	i := v.Integration
	return IntegrationEntry{ID: i.ID, Provider: i.Provider, Name: i.Name, ProviderWorkspaceID: textOrNil(i.Workspace.ID),
		ProviderWorkspaceName: textOrNil(i.Workspace.Name), Status: string(i.Status), LastTestedAt: i.LastTestedAt.UTC(), HasError: i.HasError,
		CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.UpdatedAt.UTC(), Capabilities: capabilitiesOf(v.Capabilities)}
}

func testedIntegrationOf(t integrations.TestResult) testedIntegration {
	return testedIntegration{Status: string(t.Status), IntegrationID: t.ID, Provider: t.Provider, Message: t.Message,
		TestedAt: t.LastTestedAt.UTC()}
}

func begunSessionOf(b integrations.StartedSession) begunSession {
	return begunSession{Status: string(b.Session.Status), IntegrationID: b.Integration.ID, Provider: b.Integration.Provider,
		MailboxID: b.Session.MailboxID, Mailbox: b.Mailbox, SessionID: b.Session.ID, AuthURL: b.AuthURL.Reveal(),
		ExpiresAt: b.Session.ExpiresAt.UTC()}
}

func refreshedOf(r integrations.RefreshResult) refreshedMailboxes {
	return refreshedMailboxes{IntegrationID: r.IntegrationID, Provider: r.Provider, Checked: r.Checked, Connected: r.Connected,
		NewlyConnected: r.NewlyConnected, Unchanged: r.Unchanged, ErrorCount: r.ErrorCount, Status: r.Status}
}

func disconnectedOf(d integrations.DisconnectResult) disconnectedMailbox {
	message := "The mailbox was removed from the sending platform."
	if !d.Removed {
		message = "The mailbox was not connected, so nothing was removed."
	}
	return disconnectedMailbox{Status: "disconnected", IntegrationID: d.IntegrationID, MailboxID: d.MailboxID, Message: message}
}

func deletedIntegrationOf(i integration.Integration) deletedIntegration {
	return deletedIntegration{Status: "deleted", IntegrationID: i.ID,
		Message: "The credential and the connections of the integration were removed. The sending platform was not called: accounts that are connected there stay connected."}
}

func eligibleOf(e integration.EligibleMailbox) eligibleMailbox {
	m := e.Mailbox
	return eligibleMailbox{MailboxID: m.ID, TenantID: string(m.TenantGUID), TenantName: m.TenantName, DomainName: m.DomainName,
		DisplayName: m.DisplayName, PrimarySMTP: m.Address, AccountEnabled: m.AccountEnabled, Managed: m.Provisioned,
		Connection: connectionOf(e.Connection)}
}

func connectionOf(c integration.Connection) nullable[mailboxConnection] {
	if c.ID == "" {
		return nullable[mailboxConnection]{}
	}
	return nullable[mailboxConnection]{&mailboxConnection{ID: c.ID, Status: string(c.Status), ProviderAccountID: textOrNil(c.PlatformAccountID),
		ProviderAccountEmail: textOrNil(c.PlatformAccountAddress), HasError: c.HasError, ConnectedAt: timeOrNil(c.ConnectedAt), UpdatedAt: c.UpdatedAt.UTC()}}
}

func sessionStateOf(s integration.Session) sessionState {
	return sessionState{Status: string(s.Status), IntegrationID: s.IntegrationID, MailboxID: s.MailboxID, SessionID: s.ID,
		ProviderAccountID: textOrNil(s.PlatformAccountID), ProviderAccountName: textOrNil(s.PlatformAccountName), ConnectedAt: timeOrNil(s.ConnectedAt),
		ExpiresAt: s.ExpiresAt.UTC()}
}
