// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

type connectionPath struct {
	IntegrationID string `path:"integration_id"`
	MailboxID     string `path:"mailbox_id"`
}

type sessionInput struct {
	IntegrationID string `path:"integration_id"`
	MailboxID     string `path:"mailbox_id"`
	SessionID     string `query:"session_id" required:"true"`
}

const (
	connectionsPath = "/v1/integrations/{integration_id}/mailboxes"
	signInPath      = connectionsPath + "/{mailbox_id}/oauth/microsoft"
)

func registerListEligibleMailboxes(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "list-integration-mailboxes", Method: http.MethodGet, Path: connectionsPath, Tags: []string{tagIntegrations},
		Summary: "List mailboxes and their connections",
		Description: "Lists all mailboxes that this service created in tenants of the account, with their connection through this integration. " +
			"Mailboxes that discovery found are not listed and cannot be connected.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.IntegrationsRead, AnswerExample: exampleEligibleList, Refuses: specificCodes(fault.IntegrationNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *integrationPath) (eligibleList, error) {
		id := ident.ParseOrZero(in.IntegrationID)
		mailboxes, err := service.Mailboxes(ctx, caller.Account.ID, id)
		if err != nil {
			return eligibleList{}, err
		}
		list := convertAll(mailboxes, eligibleOf)
		return eligibleList{IntegrationID: id, Mailboxes: list, Count: len(list)}, nil
	})
}

func registerBeginSignIn(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "begin-microsoft-oauth", Method: http.MethodPost, Path: signInPath + "/init", Tags: []string{tagIntegrations},
		Summary: "Start connecting a mailbox",
		Description: "Gets a link from the platform with which a person signs in to this mailbox at Microsoft. Open `auth_url` in a browser, preferably in " +
			"a private window, and sign in with exactly this mailbox. Then poll the status of the session. A mailbox can be connected through " +
			"one integration at a time.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, AnswerExample: exampleBegunSession,
			Refuses: codes(sendingCodes, specificCodes(fault.CredentialRejected, fault.TenantLimitReached, fault.IntegrationNotFound, fault.MailboxNotFound,
				fault.ConnectedElsewhere, fault.SessionActive, fault.CapabilityMissing))}.Metadata(),
	}, begunSessionOf, func(ctx context.Context, caller access.Caller, in *connectionPath, encoder ports.AnswerEncoder[integrations.StartedSession]) (integrations.StartedSession, error) {
		return service.BeginSignIn(ctx, caller.Account, ident.ParseOrZero(in.IntegrationID), ident.ParseOrZero(in.MailboxID), encoder)
	})
}

func registerGetSignIn(api huma.API, service *integrations.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-microsoft-oauth-status", Method: http.MethodGet, Path: signInPath + "/status", Tags: []string{tagIntegrations},
		Summary: "Get the status of a sign-in",
		Description: "Asks the platform for the status of a session, at most every 3 seconds, however often this operation is called. `connected` means that " +
			"the account that signed in is the mailbox's own account. Some platforms cannot report that a sign-in failed or used a " +
			"different account; the session is then `pending` until it expires. An unfinished session is checked once more before it " +
			"becomes `expired`. Start a new session after `failed` or `expired`.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.IntegrationsRead, AnswerExample: exampleSession,
			Refuses: codes(sendingCodes, specificCodes(fault.InvalidRequest, fault.CredentialRejected, fault.IntegrationNotFound, fault.MailboxNotFound,
				fault.SessionNotFound))}.Metadata(),
	}, sessionStateOf, func(ctx context.Context, caller access.Caller, in *sessionInput) (integration.Session, error) {
		return service.SessionStatus(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID), ident.ParseOrZero(in.MailboxID), ident.ParseOrZero(in.SessionID))
	})
}

func registerRefreshMailboxes(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "refresh-integration-mailboxes", Method: http.MethodPost, Path: connectionsPath + "/refresh", Tags: []string{tagIntegrations},
		Summary: "Refresh the connections",
		Description: "Reads the platform's list of mail accounts and stores which mailboxes are connected. Use it after an event that the service did not see: a " +
			"closed sign-in window, an account that was removed at the platform, a disconnect with an unknown outcome. If the list cannot be read completely, " +
			"no connection is changed.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, AnswerExample: exampleRefreshedMailboxes,
			Refuses: codes(sendingCodes, specificCodes(fault.CredentialRejected, fault.IntegrationNotFound, fault.CapabilityMissing))}.Metadata(),
	}, refreshedOf, func(ctx context.Context, caller access.Caller, in *integrationPath, encoder ports.AnswerEncoder[integrations.RefreshResult]) (integrations.RefreshResult, error) {
		return service.Refresh(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID), encoder)
	})
}

func registerDisconnectMailbox(api huma.API, service *integrations.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "disconnect-mailbox", Method: http.MethodDelete, Path: connectionsPath + "/{mailbox_id}", Tags: []string{tagIntegrations},
		Summary: "Disconnect a mailbox",
		Description: "Removes the mailbox's account from the platform and from its campaigns. An account that no longer exists counts as disconnected. If the " +
			"outcome is unknown, the response is 504 and the connection is `disconnecting`. Repeat the request or refresh to resolve it; " +
			"until then the mailbox cannot be connected elsewhere.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Scope: access.IntegrationsWrite, Write: true, AnswerExample: exampleDisconnectedMailbox,
			Refuses: codes(sendingCodes, specificCodes(fault.CredentialRejected, fault.IntegrationNotFound, fault.MailboxNotFound, fault.CapabilityMissing))}.Metadata(),
	}, disconnectedOf, func(ctx context.Context, caller access.Caller, in *connectionPath, encoder ports.AnswerEncoder[integrations.DisconnectResult]) (integrations.DisconnectResult, error) {
		return service.Disconnect(ctx, caller.Account.ID, ident.ParseOrZero(in.IntegrationID), ident.ParseOrZero(in.MailboxID), encoder)
	})
}
